"""How results are read: exit status and JUnit XML. Pure; what is read is untrusted."""
