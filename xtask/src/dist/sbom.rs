//! What is linked into the program, as CycloneDX 1.6: <https://cyclonedx.org/docs/1.6/json/>.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::run::{Outcome, cargo, output_of, root};

/// A package of the tree: where it is in it, and what is known of it.
struct Package {
    depth: usize,
    name: String,
    version: String,
    licence: String,
    features: String,
}

/// The bill of materials of `biopsy` for a target. Crates that only run while it is built are not in it. It has no moment and no random
/// number, so that two builds give the same.
pub(super) fn of(triple: &str, digest: &str) -> Outcome<String> {
    let tree = output_of(&mut cargo(&[
        "tree",
        "--locked",
        "--package=biopsy",
        "--edges=normal,no-proc-macro",
        &format!("--target={triple}"),
        "--prefix=depth",
        "--format= {p} | {l} | {f}",
    ]))?;
    let lock = std::fs::read_to_string(root().join("Cargo.lock"))
        .map_err(|error| format!("cannot read Cargo.lock: {error}"))?;
    let compiler = output_of(std::process::Command::new("rustc").arg("--version"))?;
    let bill = bill(&packages(&tree)?, &checksums(&lock)?, &compiler, digest)?;
    serde_json::to_string_pretty(&bill).map_err(|error| error.to_string()).map(|text| text + "\n")
}

/// Lines like `2 memchr v2.8.3 | MIT | std`, or `0 biopsy v0.1.0 (/folder) | MIT | `.
fn packages(tree: &str) -> Outcome<Vec<Package>> {
    let package = |line: &str| -> Option<Package> {
        let (depth, rest) = line.split_once(' ')?;
        let mut parts = rest.split(" | ");
        let mut words = parts.next()?.split_whitespace();
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some(Package {
            depth: depth.parse().ok()?,
            name: name.to_owned(),
            version: version.to_owned(),
            licence: parts.next()?.replace('/', " OR "),
            features: parts.next()?.trim_end_matches("(*)").trim().to_owned(),
        })
    };
    let lines = tree.lines().filter(|line| !line.is_empty());
    lines.map(|line| package(line).ok_or_else(|| format!("`cargo tree` says `{line}`"))).collect()
}

/// SHA-256 of the crates that come from a registry.
fn checksums(lock: &str) -> Outcome<BTreeMap<(String, String), String>> {
    #[derive(serde::Deserialize)]
    struct Lock {
        package: Vec<Locked>,
    }
    #[derive(serde::Deserialize)]
    struct Locked {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let lock: Lock = toml::from_str(lock).map_err(|error| format!("Cargo.lock: {error}"))?;
    let of_registry = lock.package.into_iter();
    Ok(of_registry.filter_map(|one| Some(((one.name, one.version), one.checksum?))).collect())
}

fn bill(
    tree: &[Package],
    checksums: &BTreeMap<(String, String), String>,
    compiler: &str,
    digest: &str,
) -> Outcome<Value> {
    let reference = |package: &Package| format!("pkg:cargo/{}@{}", package.name, package.version);
    let own = tree.first().ok_or("`cargo tree` says nothing")?;
    let mut components = BTreeMap::new();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut above: Vec<String> = Vec::new();
    for package in tree {
        let here = reference(package);
        above.truncate(package.depth);
        edges.entry(here.clone()).or_default();
        if let Some(parent) = above.last() {
            edges.entry(parent.clone()).or_default().insert(here.clone());
        }
        above.push(here.clone());
        if package.depth == 0 {
            continue;
        }
        let mut component = json!({
            "type": "library",
            "bom-ref": here,
            "name": package.name,
            "version": package.version,
            "purl": here,
        });
        if !package.licence.is_empty() {
            component["licenses"] = json!([{ "expression": package.licence }]);
        }
        if !package.features.is_empty() {
            component["properties"] = json!([{ "name": "cargo:features", "value": package.features }]);
        }
        if let Some(checksum) = checksums.get(&(package.name.clone(), package.version.clone())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        components.insert(here, component);
    }
    let mut components: Vec<Value> = components.into_values().collect();
    // Not of a registry, and linked all the same.
    let version = compiler.split_whitespace().nth(1).unwrap_or_default();
    for (name, licence) in [("rust-std", "MIT OR Apache-2.0"), ("musl", "MIT")] {
        components.push(json!({
            "type": "library",
            "bom-ref": name,
            "name": name,
            "description": format!("as it comes with the compiler: {}", compiler.trim()),
            "version": if name == "rust-std" { version } else { "" },
            "licenses": [{ "expression": licence }],
        }));
        edges.entry(reference(own)).or_default().insert(name.to_owned());
        edges.insert(name.to_owned(), BTreeSet::new());
    }
    let dependencies: Vec<Value> =
        edges.into_iter().map(|(of, on)| json!({ "ref": of, "dependsOn": on })).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": reference(own),
                "name": own.name,
                "version": own.version,
                "licenses": [{ "expression": own.licence }],
                "hashes": [{ "alg": "SHA-256", "content": digest }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
0 biopsy v0.1.0 (/folder) | MIT OR Apache-2.0 | \n1 one v1.0.0 | MIT/Apache-2.0 | std\n2 two v2.0.0+c.3 | MIT | \n1 two v2.0.0+c.3 | MIT |  (*)\n";

    #[test]
    fn each_package_is_named_once_with_what_it_needs() {
        let lock = "[[package]]\nname = \"one\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let bill =
            bill(&packages(TREE).unwrap(), &checksums(lock).unwrap(), "rustc 1.95.0 (hash)", "cd").unwrap();
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["one", "two", "rust-std", "musl"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ab");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"][0]["properties"][0]["value"], "std");
        assert!(bill["components"][1]["properties"].is_null());
        let needs = |of: &str| {
            bill["dependencies"].as_array().unwrap().iter().find(|one| one["ref"] == of).unwrap()["dependsOn"]
                .clone()
        };
        assert_eq!(
            needs("pkg:cargo/biopsy@0.1.0"),
            json!(["musl", "pkg:cargo/one@1.0.0", "pkg:cargo/two@2.0.0+c.3", "rust-std"])
        );
        assert_eq!(needs("pkg:cargo/one@1.0.0"), json!(["pkg:cargo/two@2.0.0+c.3"]));
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        assert!(packages("1 one\n").is_err());
    }
}
