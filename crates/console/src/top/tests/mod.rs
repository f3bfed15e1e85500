//! The screen of `top` in each state, drawn into memory: no terminal, and the time is passed in.

mod keys;
mod list;
mod orders;
mod scene;
