//! The needs of a built program: the shared libraries that it loads, and the oldest glibc that has all it calls.
//!
//! `readelf` of binutils reads the program, which is there wherever a compiler links.

use std::fmt;
use std::path::Path;

use crate::staging::output_of;

/// A version of glibc.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Glibc {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The libraries that are there wherever glibc is, by the beginnings of their names: its own, and gcc's for unwinding.
const WITH_GLIBC: &[&str] =
    &["libc.so.", "libgcc_s.so.", "libm.so.", "ld-linux", "libpthread.so.", "libdl.so.", "librt.so."];

/// The oldest glibc that the program runs with; `None` if it is static.
///
/// A program that loads a library of another project is an error: no archive of ours says where that one comes from.
pub(crate) fn needed_by(program: &Path) -> Result<Option<Glibc>, String> {
    let path = program.to_str().ok_or("the program's path is not text")?;
    needed(&output_of("readelf", &["--wide", "--dynamic", "--version-info", path])?)
        .map_err(|why| format!("{path}: {why}"))
}

fn needed(printed: &str) -> Result<Option<Glibc>, String> {
    let libraries = libraries(printed);
    if let Some(foreign) = libraries.iter().find(|name| !WITH_GLIBC.iter().any(|start| name.starts_with(start))) {
        return Err(format!("it loads {foreign}, which does not come with glibc; link it statically"));
    }
    match (libraries.is_empty(), greatest(printed)) {
        (true, _) => Ok(None),
        (false, None) => Err("it loads libraries, but calls no symbol with a version of glibc".to_owned()),
        (false, found) => Ok(found),
    }
}

/// The libraries that a program loads, of lines as `(NEEDED)  Shared library: [libc.so.6]`.
fn libraries(printed: &str) -> Vec<&str> {
    let needed = printed.lines().filter(|line| line.contains("(NEEDED)"));
    needed.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0)).collect()
}

/// The greatest version of glibc that is named; `GLIBC_2.2.5` counts as 2.2, and `GLIBC_PRIVATE` is none.
fn greatest(printed: &str) -> Option<Glibc> {
    let named = printed.split("GLIBC_").skip(1).filter_map(|rest| {
        let version = rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
        let mut parts = version.split('.').map(str::parse);
        Some(Glibc { major: parts.next()?.ok()?, minor: parts.next()?.ok()? })
    });
    named.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: &str = " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n\
        0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]\n\
        0x0000000000000001 (NEEDED)             Shared library: [ld-linux-x86-64.so.2]\n";
    const VERSIONS: &str = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 12\n\
        0x0020:   Name: GLIBC_2.34  Flags: WEAK  Version: 11\n\
        0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 2\n\
        0x0040:   Name: GLIBC_PRIVATE  Flags: none  Version: 3\n";

    #[test]
    fn the_greatest_version_counts_by_number_and_not_by_letters() {
        let found = needed(&format!("{NEEDS}{VERSIONS}")).unwrap().unwrap();
        assert_eq!(found.to_string(), "2.34");
    }

    #[test]
    fn a_static_program_needs_no_glibc() {
        assert_eq!(needed("\nThere is no dynamic section in this file.\n"), Ok(None));
    }

    #[test]
    fn a_library_of_another_project_and_a_program_without_versions_are_errors() {
        let foreign = format!("{NEEDS}{} (NEEDED)  Shared library: [libssl.so.3]\n{VERSIONS}", "0x01");
        assert!(needed(&foreign).unwrap_err().contains("libssl.so.3"));
        assert!(needed(NEEDS).unwrap_err().contains("no symbol"));
    }
}
