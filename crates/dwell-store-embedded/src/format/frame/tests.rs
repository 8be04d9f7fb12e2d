use proptest::prelude::*;

use super::*;
use crate::format::hex;

fn header(segment: u64, first_sequence: u64) -> FrameHeader {
    FrameHeader { segment, epoch: 2, first_sequence, record_count: 3, durable_through: first_sequence - 1, now: 1_000 }
}

fn sealed(payload: &[u8], header: &FrameHeader) -> Vec<u8> {
    let mut buffer = room();
    buffer.extend_from_slice(payload);
    seal(&mut buffer, header);
    buffer
}

/// A segment of these frames, without a header page.
fn segment_of(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.concat()
}

/// The frame again with this change and a checksum that matches.
fn forged(frame: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    change(&mut bytes);
    let length = usize::try_from(u32::from_le_bytes(bytes[8..12].try_into().unwrap())).unwrap();
    bytes[CRC_AT].fill(0);
    let crc = crc32c::crc32c(&bytes[..HEADER + length]);
    bytes[CRC_AT].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn a_frame_has_its_golden_bytes() {
    let header = FrameHeader {
        segment: 0x11,
        epoch: 0x22,
        first_sequence: 0x33,
        record_count: 0x44,
        durable_through: 0x55,
        now: 0x66,
    };
    let frame = sealed(b"payload", &header);
    assert_eq!(frame.len(), PAGE);
    assert!(frame[71..].iter().all(|&b| b == 0));
    assert_eq!(
        hex(&frame[..71]),
        "447746720100000007000000440000008e8158a200000000110000000000000022000000000000003300000000000000\
         550000000000000066000000000000007061796c6f6164"
    );
}

#[test]
fn frames_follow_one_another_on_pages() {
    for (payload, pages) in [(0, 1), (PAGE - HEADER, 1), (PAGE - HEADER + 1, 2), (3 * PAGE, 4)] {
        let frame = sealed(&vec![7; payload], &header(1, 1));
        assert_eq!(frame.len(), pages * PAGE);
        assert_eq!(padded(HEADER + payload), (pages * PAGE) as u64);
        let segment = segment_of(&[frame.clone(), sealed(b"next", &header(1, 4))]);
        let ReadFrame::Frame(first) = read_frame(&segment, 0, 1) else { panic!("it is whole") };
        assert_eq!((first.header, first.payload.len()), (header(1, 1), payload));
        assert_eq!((first.offset, first.next_offset), (0, frame.len()));
        let ReadFrame::Frame(second) = read_frame(&segment, first.next_offset, 1) else { panic!("it is whole") };
        assert_eq!((second.payload, second.next_offset), (&b"next"[..], segment.len()));
        assert_eq!(read_frame(&segment, second.next_offset, 1), ReadFrame::Nothing);
    }
}

#[test]
fn what_is_no_frame_of_this_segment_is_nothing() {
    assert_eq!(read_frame(&[0; 2 * PAGE], PAGE, 1), ReadFrame::Nothing);
    assert_eq!(read_frame(&[0xff; 2 * PAGE], 0, 1), ReadFrame::Nothing);
    let frame = sealed(b"stale", &header(1, 1));
    assert_eq!(read_frame(&frame, 0, 2), ReadFrame::Nothing);
    assert_eq!(read_frame(&frame[..HEADER - 1], 0, 1), ReadFrame::Nothing);
    assert_eq!(read_frame(&frame, PAGE, 1), ReadFrame::Nothing);
    assert_eq!(read_frame(&frame, usize::MAX, 1), ReadFrame::Nothing);
}

#[test]
fn damage_is_named() {
    let frame = sealed(&[5; 100], &header(1, 1));
    let damage = |bytes: &[u8]| match read_frame(bytes, 0, 1) {
        ReadFrame::Damaged { offset: 0, why } => Some(why),
        _ => None,
    };
    let set =
        |at: usize, bytes: &'static [u8]| forged(&frame, |frame| frame[at..at + bytes.len()].copy_from_slice(bytes));
    assert_eq!(damage(&forged(&frame, |_| ())), None);
    assert_eq!(damage(&set(4, &[9])), Some(FrameDamage::Version(9)));
    assert_eq!(damage(&set(6, &[1])), Some(FrameDamage::Field));
    assert_eq!(damage(&set(20, &[1])), Some(FrameDamage::Field));
    assert_eq!(damage(&set(56, &[0xff; 8])), Some(FrameDamage::Field));
    assert_eq!(damage(&frame[..HEADER + 99]), Some(FrameDamage::Length(100)));
    let mut torn = frame.clone();
    torn[HEADER + 50..].fill(0);
    assert_eq!(damage(&torn), Some(FrameDamage::Checksum));
}

#[test]
fn a_length_over_the_limit_is_not_believed_even_if_the_bytes_are_there() {
    let mut bytes = vec![0; HEADER + MAX_PAYLOAD + 1];
    bytes[..PAGE].copy_from_slice(&sealed(b"", &header(1, 1)));
    let length = u32::try_from(MAX_PAYLOAD + 1).unwrap();
    let bytes = forged(&bytes, |bytes| bytes[8..12].copy_from_slice(&length.to_le_bytes()));
    assert_eq!(read_frame(&bytes, 0, 1), ReadFrame::Damaged { offset: 0, why: FrameDamage::Length(length) });
    assert!(matches!(read_frame(&sealed(&vec![1; MAX_PAYLOAD], &header(1, 1)), 0, 1), ReadFrame::Frame(_)));
}

#[test]
#[should_panic(expected = "does not fit a frame")]
fn a_payload_over_the_limit_is_not_sealed() {
    sealed(&vec![0; MAX_PAYLOAD + 1], &header(1, 1));
}

#[test]
fn later_frames_are_found_behind_damage() {
    let mut frames = [1, 4, 7, 10].map(|first| sealed(&[1; 6_000], &header(1, first)));
    frames[1][HEADER + 5_000] ^= 1;
    frames[2][0] ^= 1;
    let stale = sealed(b"of an earlier life", &header(9, 99));
    let segment = segment_of(&[&frames[..], &[stale]].concat());
    let found = |from| find_later(&segment, from, 1).map(|f| f.header.first_sequence).collect::<Vec<_>>();
    assert_eq!(found(0), [1, 10]);
    assert_eq!(found(1), [10]);
    assert_eq!(found(2 * PAGE), [10]);
    assert_eq!(found(6 * PAGE + 1), [0; 0]);
    assert_eq!(found(segment.len()), [0; 0]);
}

#[test]
fn a_frame_inside_a_payload_is_not_found_as_long_as_what_holds_it_is_whole() {
    let inner = sealed(b"inner", &header(1, 50));
    let payload = [vec![0; PAGE - HEADER], inner].concat();
    let mut segment = sealed(&payload, &header(1, 1));
    let found = |bytes: &[u8]| find_later(bytes, 0, 1).map(|f| f.header.first_sequence).collect::<Vec<_>>();
    assert_eq!(found(&segment), [1]);
    segment[HEADER] ^= 1;
    assert_eq!(found(&segment), [50]);
}

prop_compose! {
    fn any_header()(
        segment: u64,
        epoch: u64,
        first_sequence: u64,
        record_count: u32,
        durable_through: u64,
        now in 0..=limits::MAX_TIMESTAMP,
    ) -> FrameHeader {
        FrameHeader { segment, epoch, first_sequence, record_count, durable_through, now }
    }
}

proptest! {
    #[test]
    fn frames_read_back(header in any_header(), payload in prop::collection::vec(any::<u8>(), 0..10_000)) {
        let bytes = sealed(&payload, &header);
        let expected = Frame { header, payload: &payload, offset: 0, next_offset: bytes.len() };
        prop_assert_eq!(read_frame(&bytes, 0, header.segment), ReadFrame::Frame(expected));
    }

    #[test]
    fn no_flipped_bit_goes_unseen(
        header in any_header(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        at: prop::sample::Index,
        bit in 0..8,
    ) {
        let mut bytes = sealed(&payload, &header);
        bytes[at.index(HEADER + payload.len())] ^= 1_u8 << bit;
        prop_assert!(!matches!(read_frame(&bytes, 0, header.segment), ReadFrame::Frame(_)));
        prop_assert_eq!(find_later(&bytes, 0, header.segment).count(), 0);
    }

    #[test]
    fn no_cut_goes_unseen(
        header in any_header(),
        payload in prop::collection::vec(any::<u8>(), 1..300),
        at: prop::sample::Index,
    ) {
        let bytes = sealed(&payload, &header);
        let cut = at.index(HEADER + payload.len());
        prop_assert!(!matches!(read_frame(&bytes[..cut], 0, header.segment), ReadFrame::Frame(_)));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), offset in 0..300_usize, segment: u64) {
        let mut with_magic = MAGIC.to_le_bytes().to_vec();
        with_magic.extend_from_slice(&VERSION.to_le_bytes());
        with_magic.extend_from_slice(&bytes);
        let of = with_magic.get(24..32).map_or(0, |id| u64::from_le_bytes(id.try_into().unwrap()));
        prop_assert!(!matches!(read_frame(&bytes, offset, segment), ReadFrame::Frame(_)));
        prop_assert!(!matches!(read_frame(&with_magic, 0, of), ReadFrame::Frame(_)));
    }
}
