//! Match-action programs and their meaning: tables, actions, the reference interpreter.
