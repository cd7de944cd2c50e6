# SPDX-License-Identifier: Apache-2.0
"""The list of checks, and the runner that counts what they found."""
import collections
import dataclasses
import typing


class Failure(Exception):
    """States what the service did wrong."""


class Skip(Exception):
    """States why a check says nothing about this service."""


@dataclasses.dataclass(frozen=True)
class Check:
    """A function of the service, with what it needs from the service and the command line."""
    group: str
    title: str
    needs: tuple
    function: typing.Callable


all_checks = []


def add_check(group, title, needs, function):
    """Adds a check at the end of the list."""
    all_checks.append(Check(group, title, needs, function))


def check(group, *needs):
    """Decorates a function of the service as a check. Its docstring is the title."""
    def add(function):
        add_check(group, function.__doc__.rstrip('.'), needs, function)
        return function
    return add


def expect(condition, text):
    """Fails the check with a text unless the condition holds."""
    if not condition:
        raise Failure(text)


def outcome_of(entry, service):
    """Runs one check. Returns passed, failed or skipped, and the reason."""
    for need in entry.needs:
        reason = service.lacks(need)
        if reason:
            return 'skipped', reason
    try:
        entry.function(service)
    except Skip as skip:
        return 'skipped', str(skip)
    except Failure as failure:
        return 'failed', str(failure)
    except Exception as error:  # Whatever a client library raises is an answer of the service.
        return 'failed', f'{type(error).__name__}: {error}'
    return 'passed', ''


def run_checks(service, word=''):
    """Runs the checks whose group or title has the word. Returns the number of failed ones."""
    counts = collections.defaultdict(collections.Counter)
    for entry in all_checks:
        name = f'{entry.group}: {entry.title}'
        if word.lower() not in name.lower():
            continue
        outcome, reason = outcome_of(entry, service)
        counts[entry.group][outcome] += 1
        print(f'{outcome:8} {name}' + (f' ({" ".join(reason.split())})' if reason else ''), flush=True)

    outcomes = 'passed', 'failed', 'skipped'
    width = max(map(len, counts), default=0)
    print('\n' + ' ' * width + ''.join(f'{outcome:>9}' for outcome in outcomes))
    for group, count in counts.items():
        print(f'{group:{width}}' + ''.join(f'{count[outcome]:9}' for outcome in outcomes))
    total = sum(counts.values(), collections.Counter())
    print('\n' + ', '.join(f'{total[outcome]} {outcome}' for outcome in outcomes))
    return total['failed']
