//! The suite that every Lockkeeper backend passes
