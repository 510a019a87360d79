"""What touches hardware: each runner is a program, spec in, events and result out."""
