"""Errors that the user can mend: their message says what was given and what would be right."""


class InputError(ValueError):
    """Bad input: a file, a configuration value or an argument."""
