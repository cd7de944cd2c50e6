# The hazard proof and its negative controls.
sluice_add_test(NAME hazards_test TIMEOUT 600
  SOURCES hazards_test.cpp hazard_controls_test.cpp compute_sanitizer_controls_test.cpp hazard_scenarios.cpp hazard_dag.cpp hazard_run.cpp
  CUDA_SOURCES hazard_kernels.cu
  LIBRARIES sluice_test_support)
