//! Which jobs of a run are no more: a set of ordinals in a file of its own, replaced as a whole.
//!
//! ```text
//! magic u32 │ version u16 │ 0 u16 │ run u64 │ stamp u64 │ crc u32 │ the set, as a portable Roaring bitmap
//! ```

use std::io;

use roaring::RoaringBitmap;

use super::VERSION;
use super::bytes::{Reader, put_u16, put_u32, put_u64};
use super::run::RunError;
use crate::storage::Storage;

/// What the names of these files begin with; run and stamp in hexadecimal digits follow.
pub(crate) const PREFIX: &str = "dead-";

const MAGIC: u32 = u32::from_le_bytes(*b"DwDd");
const HEADER: usize = 28;

/// The name of the file of a run with this stamp.
pub(crate) fn name(run: u64, stamp: u64) -> String {
    format!("{PREFIX}{run:016x}-{stamp:016x}")
}

/// Run and stamp in a name that [`name`] made.
pub(crate) fn parse_name(text: &str) -> Option<(u64, u64)> {
    let (run, stamp) = text.strip_prefix(PREFIX)?.split_once('-')?;
    let parsed = (u64::from_str_radix(run, 16).ok()?, u64::from_str_radix(stamp, 16).ok()?);
    (name(parsed.0, parsed.1) == text).then_some(parsed)
}

/// Writes the file and makes it durable, but for its name.
pub(crate) fn store(storage: &dyn Storage, run: u64, stamp: u64, dead: &RoaringBitmap) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEADER + dead.serialized_size());
    put_u32(&mut bytes, MAGIC);
    put_u16(&mut bytes, VERSION);
    put_u16(&mut bytes, 0);
    put_u64(&mut bytes, run);
    put_u64(&mut bytes, stamp);
    put_u32(&mut bytes, 0);
    dead.serialize_into(&mut bytes)?;
    let crc = crc32c::crc32c(&bytes);
    bytes[HEADER - 4..HEADER].copy_from_slice(&crc.to_le_bytes());
    let file = storage.create(&name(run, stamp))?;
    file.write_at(0, &bytes)?;
    file.sync_data()
}

/// Reads the file of a run with this stamp.
pub(crate) fn load(storage: &dyn Storage, run: u64, stamp: u64) -> Result<RoaringBitmap, RunError> {
    let file = storage.open(&name(run, stamp))?;
    let length = usize::try_from(file.len()?).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; length];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    decode(&mut bytes, run, stamp)
}

pub(super) fn decode(bytes: &mut [u8], run: u64, stamp: u64) -> Result<RoaringBitmap, RunError> {
    let mut reader = Reader::new(bytes);
    let header = (reader.u32()?, reader.u16()?, reader.u16()?, reader.u64()?, reader.u64()?);
    let crc = reader.u32()?;
    let damage = reader.invalid("checksum");
    if header != (MAGIC, VERSION, 0, run, stamp) {
        return Err(damage.into());
    }
    bytes[HEADER - 4..HEADER].fill(0);
    if crc != crc32c::crc32c(bytes) {
        return Err(damage.into());
    }
    RoaringBitmap::deserialize_from(&bytes[HEADER..]).map_err(|_| damage.into())
}
