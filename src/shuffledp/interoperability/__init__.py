"""Exchange of privacy curves with other accountants: dp_accounting, OpenDP and CSV files."""
