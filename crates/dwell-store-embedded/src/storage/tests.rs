//! Both storages keep one contract; what only a disk has is tested after.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn sorted(storage: &dyn Storage) -> Vec<String> {
    let mut names = storage.list().unwrap();
    names.sort();
    names
}

fn content(file: &dyn StoredFile) -> Vec<u8> {
    let mut bytes = vec![0xff; 100];
    let read = file.read_at(0, &mut bytes).unwrap();
    assert!(bytes[read..].iter().all(|&b| b == 0xff), "what is beyond the end is not touched");
    bytes.truncate(read);
    bytes
}

fn keeps_the_contract(storage: &dyn Storage) {
    assert_eq!(sorted(storage), [""; 0]);
    assert_eq!(storage.open("a").err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    let a = storage.create("a").unwrap();
    a.write_at(0, b"hello").unwrap();
    a.write_at(3, b"p!").unwrap();
    assert_eq!(content(&*a), b"help!");
    a.write_at(7, b"x").unwrap();
    assert_eq!(content(&*a), b"help!\0\0x");
    assert_eq!(a.len().unwrap(), 8);
    let mut two = [0; 2];
    assert_eq!(a.read_at(1, &mut two).unwrap(), 2);
    assert_eq!(&two, b"el");
    assert_eq!(a.read_at(7, &mut two).unwrap(), 1);
    assert_eq!(a.read_at(8, &mut two).unwrap(), 0);
    assert_eq!(a.read_at(1 << 40, &mut two).unwrap(), 0);
    a.sync_data().unwrap();

    let b = storage.create("b").unwrap();
    b.write_at(0, b"other").unwrap();
    assert_eq!(sorted(storage), ["a", "b"]);
    assert_eq!(content(&*storage.open("a").unwrap()), b"help!\0\0x");
    storage.rename("a", "b").unwrap();
    storage.sync_dir().unwrap();
    assert_eq!(sorted(storage), ["b"]);
    assert_eq!(content(&*storage.open("b").unwrap()), b"help!\0\0x");
    assert_eq!(content(&*b), b"other", "who has a file open keeps it");
    assert_eq!(storage.rename("a", "c").err().map(|e| e.kind()), Some(ErrorKind::NotFound));

    // Through another handle, as after a restart.
    let again = storage.open("b").unwrap();
    again.write_at(0, b"H").unwrap();
    assert_eq!(content(&*a), b"Help!\0\0x");
    assert_eq!(storage.create("b").unwrap().len().unwrap(), 0);
    storage.remove("b").unwrap();
    assert_eq!(sorted(storage), [""; 0]);
    assert_eq!(storage.remove("b").err().map(|e| e.kind()), Some(ErrorKind::NotFound));
}

#[test]
fn memory_keeps_the_contract() {
    let storage = MemoryStorage::new();
    keeps_the_contract(&storage);
    storage.create("x").unwrap().write_at(0, b"1").unwrap();
    assert_eq!(content(&*storage.clone().open("x").unwrap()), b"1", "clones share files");
    assert_eq!(storage.describe("x"), "memory");
}

#[test]
fn a_disk_keeps_the_contract() {
    let home = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open(home.path()).unwrap();
    keeps_the_contract(&storage);
    assert_eq!(storage.describe("x"), home.path().join("x").display().to_string());
    std::fs::create_dir(home.path().join("sub")).unwrap();
    assert_eq!(sorted(&storage), [""; 0], "neither the lock nor a directory is a stored file");
    assert!(home.path().join("lock").is_file());
}

#[test]
fn a_missing_directory_is_made_and_is_private() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("above/data");
    let storage = DiskStorage::open(&dir).unwrap();
    storage.create("x").unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("x")), 0o600);
}

#[test]
fn a_directory_belongs_to_one_at_a_time() {
    let home = tempfile::tempdir().unwrap();
    let first = DiskStorage::open(home.path()).unwrap();
    let error = DiskStorage::open(home.path()).unwrap_err();
    assert!(matches!(&error, OpenDirError::InUse { dir } if dir == home.path()));
    let expected = format!("{} is in use by another Dwell process; ", home.path().display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    drop(first);
    DiskStorage::open(home.path()).unwrap();
}

#[test]
fn a_file_in_the_place_of_the_directory_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    std::fs::write(&path, "x").unwrap();
    let error = DiskStorage::open(&path).unwrap_err();
    assert!(matches!(error, OpenDirError::Io { .. }));
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}
