"""Runs that leave: in the format of another program, and to and from the Hugging Face Hub."""
