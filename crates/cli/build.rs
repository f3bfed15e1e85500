//! Links what unwinds the stack into the command itself.
//!
//! The shared library for it asks the processor what it can do at the start of each program, and a virtual machine
//! answers that slowly: a tenth of the time of `lockkeeper run` beside a short command.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |name| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        // Each gcc, which links here, brings it.
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}
