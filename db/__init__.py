"""What is remembered. The only code that knows SQLAlchemy."""
