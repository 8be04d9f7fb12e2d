//! File systems of our own, in files, whose power can be cut.
//!
//! They are mounted in a name space that ends with this process, whatever ends it; with the mount goes its loop device.
//! A cut is the file system's own shutdown call: nothing of what is only in memory reaches the disk any more, and every
//! access fails until it is mounted again. Unlike a real disk, a file does not lose what it had taken before a flush.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use tempfile::TempDir;

use crate::Outcome;
use crate::server::{pause, succeed, text};

/// Set in the process that has a name space of its own.
const INSIDE: &str = "DWELL_TORTURE_INSIDE";

/// `FS_IOC_SHUTDOWN`, the same number on ext4 and xfs, without writing the journal first. Our own code has no way to
/// call it without `unsafe`; perl is part of every Debian.
const SHUTDOWN: &str = "open F, '<', shift or die $!; my $how = pack 'L', 2; ioctl F, 0x8004587d, $how or die $!";

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Ext4,
    Xfs,
}

/// A disk with a file system on it. It is gone when this value is.
pub(crate) struct Disk {
    kind: Kind,
    image: PathBuf,
    root: PathBuf,
    is_mounted: bool,
    _directory: TempDir,
}

/// Whether file systems can be mounted here; if not, why.
pub(crate) fn possible(kind: Kind) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root".to_owned());
    }
    let wanted = match kind {
        Kind::Ext4 => "ext4",
        Kind::Xfs => "xfs",
    };
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.split_whitespace().any(|name| name == wanted) {
        return Err(format!("the kernel has no {wanted}"));
    }
    if !Path::new("/dev/loop-control").exists() {
        return Err("there are no loop devices".to_owned());
    }
    if std::env::var_os(INSIDE).is_none() {
        return Err("mounts are not allowed here".to_owned());
    }
    // The proof of it is in the doing.
    let tried = Disk::new(kind, 320, &std::env::temp_dir());
    tried.map(drop).map_err(|error| error.to_string())
}

/// Starts this program again where mounts are nobody else's, if that is possible; otherwise goes on.
pub(crate) fn go_inside() {
    if std::env::var_os(INSIDE).is_some() || !rustix::process::geteuid().is_root() {
        return;
    }
    let may = Command::new("unshare").args(["--mount", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let arguments = std::env::args_os().skip(1);
        let mut command = Command::new("unshare");
        command.args([OsStr::new("--mount"), program.as_os_str()]).args(arguments).env(INSIDE, "1");
        // Comes back only if it failed; then what needs a disk is skipped, and says so.
        drop(command.exec());
    }
}

impl Disk {
    /// Makes a disk of so many MiB in a directory.
    pub(crate) fn new(kind: Kind, size: u64, place: &Path) -> Outcome<Self> {
        let directory = tempfile::Builder::new().prefix("dwell-torture-disk-").tempdir_in(place)?;
        let (image, root) = (directory.path().join("image"), directory.path().join("root"));
        std::fs::File::create(&image)?.set_len(size << 20)?;
        std::fs::create_dir(&root)?;
        match kind {
            Kind::Ext4 => succeed("mkfs.ext4", &["-q", "-F", text(&image)?])?,
            Kind::Xfs => succeed("mkfs.xfs", &["-q", "-f", text(&image)?])?,
        };
        let mut disk = Self { kind, image, root, is_mounted: false, _directory: directory };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Cuts the power: from now on every access fails, and what was not synced is lost.
    pub(crate) fn cut(&self) -> Outcome<()> {
        succeed("perl", &["-e", SHUTDOWN, text(&self.root)?]).map(drop)
    }

    /// The machine is switched on again. Nobody may use the disk meanwhile.
    pub(crate) fn remount(&mut self) -> Outcome<()> {
        self.unmount()?;
        self.mount()
    }

    fn mount(&mut self) -> Outcome<()> {
        let kind = match self.kind {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
        };
        succeed("mount", &["-t", kind, "-o", "loop", text(&self.image)?, text(&self.root)?])?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Outcome<()> {
        let mut tried = succeed("umount", &[text(&self.root)?]);
        // A process that was just killed may not have let go yet.
        for _ in 0..100 {
            if tried.is_ok() {
                break;
            }
            pause();
            tried = succeed("umount", &[text(&self.root)?]);
        }
        tried?;
        self.is_mounted = false;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted && self.unmount().is_err() {
            drop(text(&self.root).and_then(|root| succeed("umount", &["--lazy", root])));
        }
    }
}
