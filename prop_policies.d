prop_policies.o: tests/property/prop_policies.c tests/property/outputs.h \
  tests/property/harness.h

tests/property/outputs.h:

tests/property/harness.h:
