"""Messages and their catalogues, in English and Korean: the words of reports and of the command line."""
