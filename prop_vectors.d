prop_vectors.o: tests/property/prop_vectors.c tests/property/outputs.h \
  tests/property/harness.h

tests/property/outputs.h:

tests/property/harness.h:
