//! Step `sdks`: the clients in `sdk/`, packed as their users get them, checked by their languages' type checkers, and tested
//! against a real server.
//!
//! What they need comes from their registries into `target/`, and so does all that is built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::examples::run_within;
use super::packages::{self, succeed};
use super::tally::Tally;
use super::{python, server};
use crate::workspace::Workspace;

/// Tests that take longer wait for something that does not come.
const TIME_LIMIT: Duration = Duration::from_mins(3);

const MYPY: &str = "1.18.2";

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    packages::need_all(&[("node", "nodejs"), ("npm", "npm")])?;
    let program = server::program(workspace)?;
    let target = workspace.metadata.target_directory.clone().into_std_path_buf();
    let from = workspace.root().join("sdk");
    for (name, check) in [("python", check_python as Check), ("typescript", check_typescript)] {
        println!("--- {name}");
        let place = target.join("sdks").join(name);
        fresh_copy(&from.join(name), &place)?;
        check(&place, &target, &program).with_context(|| format!("the client in {name}"))?;
    }
    Ok(())
}

/// Checks a client that was copied to a place of its own.
type Check = fn(place: &Path, target: &Path, program: &Path) -> anyhow::Result<()>;

fn check_python(place: &Path, target: &Path, program: &Path) -> anyhow::Result<()> {
    let bin = python::environment(target, "mypy", MYPY)?.join("bin");
    let quiet = ["--quiet", "--disable-pip-version-check"];
    let pip =
        |arguments: &[&str]| succeed(Command::new(bin.join("pip")).args(arguments).args(quiet).current_dir(place));
    pip(&["wheel", "--no-deps", "--wheel-dir", "dist", "."])?;
    let wheel = only_file(&place.join("dist"), "whl")?;
    pip(&["install", "--no-deps", "--force-reinstall", &wheel])?;
    // What is installed is checked and tested, not what lies here: a package without its types would be found out.
    std::fs::remove_dir_all(place.join("build"))?;
    let mypy = |what: &str| {
        let settings = place.join("pyproject.toml");
        let mut mypy = Command::new(bin.join("mypy"));
        mypy.arg("--config-file").arg(settings).arg(what).current_dir(place);
        succeed(mypy.env("MYPYPATH", place.join("tests")))
    };
    mypy("src")?;
    std::fs::rename(place.join("src"), place.join("checked"))?;
    mypy("tests")?;
    let mut tests = Command::new(bin.join("python"));
    tests.args(["-m", "unittest", "discover", "--start-directory", "tests"]);
    run_within(tests.current_dir(place).env("DWELL_BIN", program), TIME_LIMIT)
}

fn check_typescript(place: &Path, _target: &Path, program: &Path) -> anyhow::Result<()> {
    let npm = |arguments: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(arguments).arg("--loglevel=error").current_dir(place).env("DWELL_BIN", program);
        npm
    };
    succeed(&mut npm(&["install", "--no-audit", "--no-fund"]))?;
    run_within(&mut npm(&["test"]), TIME_LIMIT)?;
    succeed(&mut npm(&["run", "build"]))?;
    succeed(&mut npm(&["pack"]))?;
    // Installed from the package, as users have it: its types are read, and it is loaded.
    let package = only_file(place, "tgz")?;
    let user = place.join("user");
    std::fs::create_dir_all(&user)?;
    std::fs::write(user.join("package.json"), "{\"type\": \"module\"}\n")?;
    std::fs::write(user.join("use.ts"), USE)?;
    let install = ["install", "--no-save", "--no-audit", "--no-fund", &package];
    succeed(npm(&install).current_dir(&user))?;
    let strict = ["--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "use.ts"];
    succeed(Command::new("node").arg(place.join("node_modules/typescript/bin/tsc")).args(strict).current_dir(&user))?;
    succeed(Command::new("node").arg("use.js").current_dir(&user))
}

/// What a user of the package writes.
const USE: &str = "\
import { Client, Retry, Worker, type Job } from \"dwell-client\";
const client: Client = new Client(\"http://127.0.0.1:3935\");
const put: (topic: string, id: string) => Promise<Job> = (topic, id) => client.put(topic, id, { delay: \"30m\" });
const worker = new Worker(client, \"t\", () => { throw Retry.after(\"60s\", \"busy\"); });
console.log(typeof put, typeof worker.run);
";

/// The one file in a directory that ends so, as a full path.
fn only_file(directory: &Path, extension: &str) -> anyhow::Result<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|own| own == extension) {
            found.push(path.display().to_string());
        }
    }
    ensure!(found.len() == 1, "there must be one .{extension} in {}: {found:?}", directory.display());
    Ok(found.remove(0))
}

/// Copies files to a place that has nothing else but what was installed there before.
fn fresh_copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(to)? {
        let path = entry?.path();
        match path.is_dir() {
            _ if path.ends_with("node_modules") => {}
            true => std::fs::remove_dir_all(path)?,
            false => std::fs::remove_file(path)?,
        }
    }
    copy(from, to)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    /// What building there leaves.
    const BUILT: [&str; 5] = ["node_modules", "dist", "build", "__pycache__", ".mypy_cache"];
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let into: PathBuf = to.join(&name);
        if path.is_dir() && !BUILT.iter().any(|built| name == *built) {
            copy(&path, &into)?;
        } else if path.is_file() {
            std::fs::copy(&path, into)?;
        }
    }
    Ok(())
}
