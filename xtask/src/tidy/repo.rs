//! What the rules look at: the repository's text files and the workspace's crates, all in memory.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use cargo_metadata::{DependencyKind, Package};

use crate::workspace::Workspace;

/// The repository, read once.
#[derive(Default)]
pub(crate) struct Repo {
    pub(crate) files: Vec<File>,
    pub(crate) crates: Vec<Crate>,
}

/// A text file that git tracks or would track.
pub(crate) struct File {
    /// From the root, with `/` between its parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A member of the workspace.
#[derive(Default)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// The folder of its manifest, from the root.
    pub(crate) folder: String,
    /// The text of its `Cargo.toml`.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a crate says it depends on.
pub(crate) struct Dependency {
    /// The name of the package, also where the manifest renames it.
    pub(crate) name: String,
    /// Whether only tests, examples and benchmarks get it.
    pub(crate) dev: bool,
}

impl Repo {
    pub(crate) fn load(workspace: &Workspace) -> anyhow::Result<Self> {
        let root = workspace.root();
        let files = listed_by_git(&root)?
            .into_iter()
            // Listed but deleted, a link to nowhere, or not text: nothing for a rule to read.
            .filter_map(|path| Some(File { text: fs::read_to_string(root.join(&path)).ok()?, path }))
            .collect();
        let crates = workspace.metadata.workspace_packages();
        let crates = crates.into_iter().map(|package| Crate::load(workspace, package));
        Ok(Self { files, crates: crates.collect::<anyhow::Result<_>>()? })
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(crate) fn rust_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.extension() == "rs")
    }

    #[cfg(test)]
    pub(crate) fn of_files(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        Self { files: files.iter().map(file).collect(), crates: Vec::new() }
    }
}

impl File {
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|extension| extension.to_str()).unwrap_or("")
    }
}

impl Crate {
    fn load(workspace: &Workspace, package: &Package) -> anyhow::Result<Self> {
        let path = package.manifest_path.as_std_path();
        let manifest = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let folder = path.parent().map_or(String::new(), |folder| workspace.relative(folder));
        let dependencies = package.dependencies.iter().map(|dependency| Dependency {
            name: dependency.name.clone(),
            dev: dependency.kind == DependencyKind::Development,
        });
        let dependencies = dependencies.collect();
        Ok(Self { name: package.name.to_string(), folder, manifest, dependencies })
    }

    pub(crate) fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }

    /// A crate in `crates/` that depends on `normal`, and in its tests on `dev`.
    #[cfg(test)]
    pub(crate) fn fixture(name: &str, normal: &[&str], dev: &[&str]) -> Self {
        let dependency = |dev| move |name: &&str| Dependency { name: (*name).to_owned(), dev };
        let normal = normal.iter().map(dependency(false));
        let dependencies = normal.chain(dev.iter().map(dependency(true))).collect();
        let folder = format!("crates/{name}");
        Self { name: name.to_owned(), folder, manifest: String::new(), dependencies }
    }
}

/// Tracked files and untracked ones that are not ignored, so `target/` is never read.
fn listed_by_git(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("cannot start git")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let paths = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
    Ok(paths.split_terminator('\0').map(str::to_owned).collect())
}
