//! Packages as `cargo publish --workspace` would upload them: each published crate can be packaged, and what is inside.
//!
//! Nothing is compiled here: `cargo publish` itself compiles each package before it uploads any. What the manifests
//! must say is checked by the tidy tests.

use cargo_metadata::{Metadata, Package};

use crate::cargo::{cargo, cargo_output};

/// The files that every package must have in its root.
const REQUIRED: &[&str] = &["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Packages every published crate, and reports what a package lacks.
pub(crate) fn check(metadata: &Metadata) -> Result<(), String> {
    let (published, private): (Vec<&Package>, Vec<&Package>) =
        metadata.workspace_packages().into_iter().partition(|package| is_published(package));
    if published.is_empty() {
        return Err("no published crate was found".to_owned());
    }
    let excluded: String = private.iter().map(|package| format!(" --exclude {}", package.name)).collect();
    // A lock file in each package would need the registry's index, and so the network.
    let order = format!("package --workspace{excluded} --no-verify --allow-dirty --exclude-lockfile --offline --quiet");
    cargo(&order, &[])?;
    let repositories: Vec<(&str, Option<&str>)> =
        published.iter().map(|package| (package.name.as_str(), package.repository.as_deref())).collect();
    let mut breaches = without_repository(&repositories);
    for package in published {
        let files =
            cargo_output(&format!("package --list --offline --allow-dirty --quiet --package {}", package.name))?;
        breaches.extend(lacking(&files).iter().map(|file| format!("the package of {} lacks {file}", package.name)));
    }
    breaches.iter().for_each(|breach| println!("{breach}"));
    if breaches.is_empty() { Ok(()) } else { Err(format!("{} breach(es)", breaches.len())) }
}

fn is_published(package: &Package) -> bool {
    !package.publish.as_ref().is_some_and(Vec::is_empty)
}

/// Which of the required files are not among those listed, one a line.
fn lacking(files: &str) -> Vec<&'static str> {
    REQUIRED.iter().copied().filter(|required| !files.lines().any(|file| file == *required)).collect()
}

/// The crates that name no repository, if there is one.
fn without_repository(repositories: &[(&str, Option<&str>)]) -> Vec<String> {
    let Some(repository) = repositories.iter().find_map(|(_, repository)| *repository) else {
        return Vec::new();
    };
    let others = repositories.iter().filter(|(_, named)| *named != Some(repository));
    others
        .map(|(name, _)| format!("{name} does not name the repository {repository}: `repository.workspace = true`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_a_licence_or_a_readme_in_its_root_is_reported() {
        let whole = "Cargo.toml\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\n";
        assert!(lacking(whole).is_empty());
        for required in REQUIRED {
            let elsewhere = whole.replace(required, &format!("guide/{required}"));
            assert_eq!(lacking(&elsewhere), [*required]);
        }
        assert_eq!(lacking(""), REQUIRED);
    }

    #[test]
    fn once_there_is_a_repository_every_crate_names_it() {
        assert!(without_repository(&[("a", None), ("b", None)]).is_empty());
        assert!(without_repository(&[("a", Some("here")), ("b", Some("here"))]).is_empty());
        let found = without_repository(&[("a", None), ("b", Some("here")), ("c", Some("there"))]);
        assert!(found.len() == 2 && found[0].starts_with("a ") && found[1].starts_with("c "), "{found:?}");
    }
}
