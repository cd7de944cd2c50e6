# SPDX-License-Identifier: Apache-2.0
# Sourced by the checks, which run in the root of the tree. list_files <pattern>... prints the matching files of the
# project, one a line: those that git tracks and new ones that it does not ignore. Without git it prints all files.
list_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
      if [[ -f $file ]]; then printf '%s\n' "$file"; fi
    done
  else
    local names=() pattern
    for pattern in "$@"; do names+=(-o -name "$pattern"); done
    find . -name 'build*' -prune -o -name out -prune -o -name .cache -prune -o -type f \( "${names[@]:1}" \) -printf '%P\n'
  fi | sort
}

# cache_folder <check> makes and prints the folder in which a check remembers what has passed. All clones of the project
# share it.
cache_folder() {
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/check/$1
  mkdir -p "$folder"
  # What has not been used for a month.
  find "$folder" -type f -mtime +30 -delete
  printf '%s\n' "$folder"
}
