//! The Cargo workspace the chores work on, and how they call cargo in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand};

/// The profile of everything that CI compiles, so that it compiles once.
pub(crate) const PROFILE: &str = "ci";

/// The workspace around the current directory.
pub(crate) struct Workspace {
    /// The workspace's own packages; what they depend on is named, not resolved.
    pub(crate) metadata: Metadata,
}

impl Workspace {
    pub(crate) fn load() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new().no_deps().exec().context("cannot read cargo metadata")?;
        Ok(Self { metadata })
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.metadata.workspace_root.clone().into_std_path_buf()
    }

    /// `cargo <verb>` at the root of the workspace.
    pub(crate) fn cargo(&self, verb: &str) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.root()).arg(verb);
        // `cargo run` describes xtask in these. Build scripts that watch them would run again.
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(name.as_ref());
            }
        }
        command
    }

    /// `path` as seen from the root, with `/` between its parts.
    pub(crate) fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(self.root()).unwrap_or(path);
        path.to_string_lossy().replace('\\', "/")
    }
}
