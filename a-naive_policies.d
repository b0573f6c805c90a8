naive_policies.o: tests/naive/naive_policies.c
