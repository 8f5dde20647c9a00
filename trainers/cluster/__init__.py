"""The games for trainers that ask for one sample per call: the calls of a prompt are the seats of its games."""
