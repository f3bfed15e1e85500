//! The rule for the files of a crate: their imports run one way, so that a reader can begin at the bottom.
//!
//! It reads `crate::`, `super::` and `self::` paths as text, and follows what a `mod.rs` passes on to the file that has
//! it. Tests are left out: they may stand anywhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_none;
use crate::sources::{Source, sources};

/// The sources of a crate, and the folder below whose files may not need one another.
const FOLDERS: &[(&str, &str)] = &[
    ("crates/cli/src", ""),
    ("crates/conformance/src", ""),
    ("crates/console/src", ""),
    ("crates/core/src", ""),
    ("crates/etcd/src", ""),
    ("crates/faults/src", ""),
    ("crates/file/src", ""),
    ("crates/lockkeeper/src", ""),
    ("crates/monitor/src", ""),
    ("crates/recipes/src", ""),
    ("crates/redis/src", ""),
    ("crates/session/src", ""),
    ("crates/sql/src", ""),
    ("crates/tls/src", ""),
    ("crates/trials/src", ""),
    ("crates/zk-proto/src", ""),
    ("crates/zk-server/src", ""),
    ("crates/zookeeper/src", ""),
    ("bench/src", ""),
    ("pictures/src", ""),
    ("xtask/src", ""),
];

/// A file by its module path, `a::b`; that of the crate's root is empty.
type Module = String;

#[derive(Default)]
struct File {
    /// The paths that it names, from the crate's root on.
    paths: Vec<Vec<String>>,
    /// What it passes on from the files below it: the name, and the path.
    passed_on: BTreeMap<String, Vec<String>>,
}

/// The files of one crate.
struct Crate {
    files: BTreeMap<Module, File>,
}

impl Crate {
    fn read(folder: &str, sources: &[Source]) -> Self {
        let mut files = BTreeMap::new();
        for source in sources {
            let within = source.path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')?.strip_suffix(".rs"));
            let Some(within) = within.filter(|path| !path.split('/').any(|name| name == "tests")) else { continue };
            let mut module: Vec<_> = within.split('/').map(str::to_owned).collect();
            module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
            files.insert(module.join("::"), File::read(&module, &source.text));
        }
        Self { files }
    }

    /// Finds the file that has what a path names.
    fn file_of(&self, path: &[String]) -> Option<Module> {
        let lengths = (0..=path.len()).rev();
        let (module, file, length) = lengths
            .map(|length| (path[..length].join("::"), length))
            .find_map(|(module, length)| self.files.get(&module).map(|file| (module, file, length)))?;
        match path.get(length).and_then(|name| file.passed_on.get(name)) {
            Some(passed_on) => self.file_of(passed_on),
            None => Some(module),
        }
    }

    /// Which files each file of a folder imports.
    fn imports(&self, folder: &str) -> BTreeMap<&str, BTreeSet<Module>> {
        let is_inside = |module: &str| module.split("::").next() == Some(folder) || folder.is_empty();
        let imports = |(module, file): (&Module, &File)| {
            let imported = file.paths.iter().filter_map(|path| self.file_of(path));
            imported.filter(|imported| imported != module && is_inside(imported)).collect()
        };
        let inside = self.files.iter().filter(|(module, _)| is_inside(module));
        inside.map(|entry| (entry.0.as_str(), imports(entry))).collect()
    }
}

impl File {
    fn read(module: &[String], text: &str) -> Self {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
        let code = lines.collect::<Vec<_>>().join("\n");
        let mut file = Self::default();
        for start in ["crate", "super", "self"] {
            for (at, _) in code.match_indices(&format!("{start}::")) {
                let is_word = !code[..at].ends_with(|before: char| before.is_alphanumeric() || "_:".contains(before));
                if is_word {
                    read_tree(&code[at..], &[], &mut file.paths);
                }
            }
        }
        file.paths.iter_mut().for_each(|path| *path = from_root(module, path));
        for (at, found) in code.match_indices("use ") {
            let is_passed_on = code[..at].lines().next_back().is_some_and(|before| before.starts_with("pub"));
            let mut paths = Vec::new();
            read_tree(&code[at + found.len()..], &[], &mut paths);
            for path in paths.into_iter().filter(|path| is_passed_on && is_declared(&code, &path[0])) {
                let name = path[path.len() - 1].clone();
                file.passed_on.insert(name, [module, &path].concat());
            }
        }
        file
    }
}

fn is_declared(code: &str, child: &str) -> bool {
    code.contains(&format!("mod {child};"))
}

/// Reads one path or `use` tree, and returns what comes after it.
fn read_tree<'a>(text: &'a str, above: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let (mut path, mut rest) = (above.to_vec(), text.trim_start());
    loop {
        if let Some(mut list) = rest.strip_prefix('{') {
            while !list.trim_start().is_empty() && !list.trim_start().starts_with('}') {
                let after = read_tree(list, &path, found);
                // Past a name that it gets here, or a star.
                let end = after.find([',', '}']).unwrap_or(after.len());
                list = after[end..].strip_prefix(',').unwrap_or_else(|| &after[end..]);
            }
            return list.trim_start().strip_prefix('}').unwrap_or_default();
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(below) if end > 0 => rest = below.trim_start(),
            _ => break,
        }
    }
    if !path.is_empty() {
        found.push(path);
    }
    rest
}

/// Turns a path that begins at the crate, at the file or above it into one from the crate's root on.
fn from_root(module: &[String], path: &[String]) -> Vec<String> {
    let mut root = if path[0] == "crate" { Vec::new() } else { module.to_vec() };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(root.pop()),
            name => root.push(name.to_owned()),
        }
    }
    root
}

/// All that is imported by a file, by what it imports, and so on.
fn reached<'a>(from: &str, imports: &'a BTreeMap<&str, BTreeSet<Module>>) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(imported) = open.pop().and_then(|module| imports.get(module)) {
        for module in imported {
            if reached.insert(module.as_str()) {
                open.push(module);
            }
        }
    }
    reached
}

fn circles(imports: &BTreeMap<&str, BTreeSet<Module>>) -> Vec<String> {
    let reached: BTreeMap<_, _> = imports.keys().map(|&module| (module, reached(module, imports))).collect();
    let circle_of = |module: &str| {
        let back = reached[module].iter().filter(|other| reached[*other].contains(module));
        back.copied().collect::<BTreeSet<_>>()
    };
    let circles: BTreeSet<_> =
        imports.keys().map(|module| circle_of(module)).filter(|circle| circle.len() > 1).collect();
    let cure = "need one another: move what they share into a file below them";
    circles.iter().map(|circle| format!("{} {cure}", circle.iter().copied().collect::<Vec<_>>().join(", "))).collect()
}

#[test]
fn no_files_need_one_another() {
    let sources = sources();
    let mut breaches = Vec::new();
    for (crate_folder, folder) in FOLDERS {
        let files = Crate::read(crate_folder, &sources);
        let imports = files.imports(folder);
        assert!(imports.values().any(|imported| !imported.is_empty()), "{crate_folder}/{folder}: no import was found");
        breaches.extend(circles(&imports).into_iter().map(|circle| format!("{crate_folder}: {circle}")));
    }
    assert_none(&breaches);
}

#[test]
fn planted_circles_are_reported() {
    let circles_of = |files: &[(&str, &str)]| {
        let source = |(name, text): &(&str, &str)| Source { path: format!("c/src/{name}"), text: (*text).to_owned() };
        let sources: Vec<_> = files.iter().map(source).collect();
        circles(&Crate::read("c/src", &sources).imports(""))
    };
    let lib = ("lib.rs", "mod a;\nmod b;\npub use b::{X, Y};\n");
    let b = ("b/mod.rs", "mod deep;\npub(crate) use deep::X;\npub(crate) struct Y;\n");
    let a = |text: &'static str| ("a.rs", text);
    let deep = |text: &'static str| ("b/deep.rs", text);
    for text in
        ["use crate::{Z, b::X};\n", "use super::X;\n", "fn f(x: &crate::b::deep::X) {}\n", "use crate::X as W;\n"]
    {
        for back in
            ["use crate::a::A;\n", "use super::super::a;\n", "use crate::{\n    b::{self, Y as V, Q},\n    a,\n};\n"]
        {
            let found = circles_of(&[lib, b, a(text), deep(back)]);
            assert_eq!(found.len(), 1, "{text}{back}{found:?}");
            assert!(found[0].starts_with("a, b::deep need one another"), "{found:?}");
        }
        for harmless in
            ["// use crate::a::A;\n", "use crate::Y;\n", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"]
        {
            let found = circles_of(&[lib, b, a(text), deep(harmless)]);
            assert!(found.is_empty(), "{text}{harmless}{found:?}");
        }
    }
}
