use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::format::hex;
use crate::storage::{MemoryStorage, StoredFile};

fn example() -> Manifest {
    Manifest {
        epoch: 0x11,
        first_segment: 0x22,
        next_segment: 0x33,
        sequence_reserved: 0x44,
        number_reserved: 0x55,
        topic_ids_reserved: 0x66,
        mark: 0x77,
        topics: Some(0x88),
        clean: Some(CleanStop { last_sequence: 0x99 }),
        flushed: 0xaa,
        runs: vec![RunName { run: 0xbb, dead: Some(0xcc) }, RunName { run: 0xdd, dead: None }],
        bad: vec![BadPlace { run: 0xdd, told: "x".to_owned() }],
    }
}

/// The example with this change and a checksum that matches.
fn forged(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = example().encode();
    change(&mut bytes);
    let crc = checksum(&bytes);
    bytes[CRC_AT].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn a_manifest_has_its_golden_bytes() {
    assert_eq!(
        hex(&example().encode()),
        "44774d660100000082000000e4e4c1c01100000000000000220000000000000033000000000000004400000000000000\
         5500000000000000660000007700000000000000018800000000000000019900000000000000aa0000000000000002000000\
         bb0000000000000001cc00000000000000dd0000000000000000000000000000000001000000dd000000000000000178"
    );
}

/// The same with more behind it, and a length and a checksum that match.
fn longer(bytes: &[u8]) -> Vec<u8> {
    let mut longer = [bytes, b"more"].concat();
    let length = u32::try_from(longer.len() - PRELUDE).unwrap();
    longer[8..12].copy_from_slice(&length.to_le_bytes());
    let crc = checksum(&longer);
    longer[CRC_AT].copy_from_slice(&crc.to_le_bytes());
    longer
}

#[test]
fn a_later_version_is_told_from_damage() {
    let later = forged(|bytes| bytes[4] = 9);
    assert_eq!(Manifest::decode(&later), Err(DecodeError::Newer { found: 9 }));
    // Whatever a later version has behind the first row.
    assert_eq!(Manifest::decode(&longer(&later)), Err(DecodeError::Newer { found: 9 }));

    let storage = MemoryStorage::new();
    storage.create(NAME).unwrap().write_at(0, &later).unwrap();
    let error = load(&storage).unwrap_err();
    assert!(matches!(error, ManifestError::Newer { found: 9, .. }));
    let text = error.to_string();
    assert!(text.contains("has format version 9") && text.contains("reads up to 1;"), "{text}");
}

#[test]
fn fields_that_cannot_be_are_damage() {
    assert_eq!(Manifest::decode(&forged(|_| ())), Ok(example()));
    for (at, byte) in [(0, b'x'), (4, 0), (6, 1), (8, 0), (67, 0xff), (68, 2), (77, 2)] {
        let bytes = forged(|bytes| bytes[at] = byte);
        assert!(matches!(Manifest::decode(&bytes), Err(DecodeError::Damaged(_))), "byte {at}");
    }
    assert!(matches!(Manifest::decode(&longer(&example().encode())), Err(DecodeError::Damaged(_))));
    let absent_but_set = forged(|bytes| bytes[68] = 0);
    assert!(matches!(Manifest::decode(&absent_but_set), Err(DecodeError::Damaged(_))));
}

#[test]
fn storing_replaces_as_a_whole() {
    let storage = MemoryStorage::new();
    assert!(matches!(load(&storage), Ok(None)));
    store(&storage, &example()).unwrap();
    assert_eq!(load(&storage).unwrap(), Some(example()));
    let other = Manifest { epoch: 99, clean: None, topics: None, ..example() };
    // A crash left half of one behind.
    storage.create(NEW_NAME).unwrap().write_at(0, &[1; 500]).unwrap();
    assert_eq!(load(&storage).unwrap(), Some(example()));
    store(&storage, &other).unwrap();
    assert_eq!(load(&storage).unwrap(), Some(other));
    assert_eq!(storage.list().unwrap(), [NAME]);
}

#[test]
fn a_damaged_file_is_named() {
    let storage = MemoryStorage::new();
    storage.create(NAME).unwrap().write_at(0, &example().encode()[..30]).unwrap();
    let error = load(&storage).unwrap_err();
    assert!(error.to_string().starts_with("memory is damaged: "), "{error}");
}

/// Notes what is done, in order, and passes it on.
struct Noting(MemoryStorage, Arc<Mutex<Vec<String>>>);

struct NotingFile(Arc<dyn StoredFile>, String, Arc<Mutex<Vec<String>>>);

impl Noting {
    fn note(&self, what: &str) {
        self.1.lock().unwrap().push(what.to_owned());
    }
}

impl Storage for Noting {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        self.0.open(name)
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        self.note(&format!("create {name}"));
        let notes = Arc::clone(&self.1);
        Ok(Arc::new(NotingFile(self.0.create(name)?, name.to_owned(), notes)))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.note(&format!("rename {from} {to}"));
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.note("sync_dir");
        self.0.sync_dir()
    }
    fn describe(&self, name: &str) -> String {
        self.0.describe(name)
    }
}

impl StoredFile for NotingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.2.lock().unwrap().push(format!("write {}", self.1));
        self.0.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, into)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.2.lock().unwrap().push(format!("sync {}", self.1));
        self.0.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

#[test]
fn it_is_durable_before_it_has_its_name_and_the_name_before_it_is_done() {
    let storage = Noting(MemoryStorage::new(), Arc::default());
    store(&storage, &example()).unwrap();
    let steps = ["create manifest.new", "write manifest.new", "sync manifest.new", "rename manifest.new manifest"];
    assert_eq!(*storage.1.lock().unwrap(), [&steps[..], &["sync_dir"]].concat());
}

prop_compose! {
    fn any_manifest()(
        (epoch, first_segment, next_segment) in any::<(u64, u64, u64)>(),
        (sequence_reserved, number_reserved, topic_ids_reserved) in any::<(u64, u64, u32)>(),
        mark in 0..=limits::MAX_TIMESTAMP,
        topics: Option<u64>,
        last_sequence: Option<u64>,
        flushed: u64,
        runs in prop::collection::vec((any::<u64>(), any::<Option<u64>>()), 0..5),
        bad in prop::collection::vec((any::<u64>(), "[a-z]{0,9}"), 0..3),
    ) -> Manifest {
        let clean = last_sequence.map(|last_sequence| CleanStop { last_sequence });
        Manifest {
            epoch, first_segment, next_segment, sequence_reserved, number_reserved, topic_ids_reserved, mark, topics,
            clean, flushed, runs: runs.into_iter().map(|(run, dead)| RunName { run, dead }).collect(),
            bad: bad.into_iter().map(|(run, told)| BadPlace { run, told }).collect(),
        }
    }
}

proptest! {
    #[test]
    fn manifests_read_back_and_no_flipped_bit_or_cut_goes_unseen(
        manifest in any_manifest(),
        at: prop::sample::Index,
        bit in 0..8,
    ) {
        let mut bytes = manifest.encode();
        prop_assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        let at = at.index(bytes.len());
        prop_assert!(Manifest::decode(&bytes[..at]).is_err());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(matches!(Manifest::decode(&bytes), Err(DecodeError::Damaged(_))));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let with_magic = [&MAGIC.to_le_bytes()[..], &bytes].concat();
        prop_assert!(Manifest::decode(&bytes).is_err());
        prop_assert!(Manifest::decode(&with_magic).is_err());
    }
}
