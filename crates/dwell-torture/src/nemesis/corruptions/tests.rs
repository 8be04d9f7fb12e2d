//! That each promise, if it were broken, would be found.

use super::look::{Repaired, Seen};
use super::prepared::Likeness;
use super::verdict::{Class, Mended, of_repair, of_start};
use super::*;

const FILE: &str = "run-0000000000000001";

fn opened(seen: Seen) -> Result<Class, Broken> {
    of_start(&Start::Opened(seen), &[FILE.to_owned()]).map_err(|(broken, _)| broken)
}

fn said() -> Vec<String> {
    vec![format!("{FILE} is damaged")]
}

#[test]
fn a_refusal_names_the_file() {
    let refused =
        |why: &str| of_start(&Start::Refused(why.to_owned()), &[FILE.to_owned()]).map_err(|(broken, _)| broken);
    assert_eq!(refused(&format!("/d/{FILE} is damaged at byte 7: why")), Ok(Class::RefusedAtByte));
    assert_eq!(refused(&format!("/d/{FILE} is missing")), Ok(Class::RefusedFile));
    assert_eq!(refused("/d/manifest is damaged at byte 0"), Err(Broken::Unnamed));
    assert_eq!(of_start(&Start::Hung, &[]).map_err(|(broken, _)| broken), Err(Broken::Hung));
    assert_eq!(of_start(&Start::Panicked, &[]).map_err(|(broken, _)| broken), Err(Broken::Panicked));
}

#[test]
fn a_store_that_opens_is_right_or_loud() {
    assert_eq!(opened(Seen::default()), Ok(Class::Harmless));
    let with = |unreadable: &[u64], back: &[u64], troubles| Seen {
        unreadable: unreadable.to_vec(),
        back: back.to_vec(),
        troubles,
        ..Seen::default()
    };
    assert_eq!(opened(with(&[], &[], said())), Ok(Class::ReportedAndWhole));
    assert_eq!(opened(with(&[1], &[], said())), Ok(Class::Reported));
    assert_eq!(opened(with(&[], &[1], said())), Ok(Class::ReportedAndBack));
    assert_eq!(opened(with(&[1], &[], Vec::new())), Err(Broken::Silent));
    assert_eq!(opened(with(&[], &[1], Vec::new())), Err(Broken::Back));
    assert_eq!(opened(with(&[1], &[], vec!["something".to_owned()])), Err(Broken::Unnamed));
}

#[test]
fn nothing_that_is_said_excuses_a_job_that_is_gone_or_changed() {
    assert_eq!(opened(Seen { lost: vec![1], troubles: said(), ..Seen::default() }), Err(Broken::Lost));
    assert_eq!(opened(Seen { changed: vec![1], troubles: said(), ..Seen::default() }), Err(Broken::Changed));
    assert_eq!(opened(Seen { older: vec![1], troubles: said(), ..Seen::default() }), Err(Broken::Changed));
    let odd = Seen { odd: vec!["the store has failed".to_owned()], troubles: said(), ..Seen::default() };
    assert_eq!(opened(odd), Err(Broken::Odd));
}

#[test]
fn a_repair_lists_what_it_drops() {
    let of = |dropped: &[&str], seen| {
        let dropped = dropped.iter().map(ToString::to_string).collect();
        of_repair(&Repaired::Opened { dropped, kept: 3, seen }, 3).map_err(|(broken, _)| broken)
    };
    let whole = Seen { good: 3, ..Seen::default() };
    let less = Seen { good: 2, lost: vec![1], ..Seen::default() };
    let more = Seen { good: 3, back: vec![9], ..Seen::default() };
    assert_eq!(of(&[], whole.clone()), Ok(Mended::Whole));
    assert_eq!(of(&[FILE], whole.clone()), Ok(Mended::NothingLost));
    assert_eq!(of(&[FILE], less.clone()), Ok(Mended::Dropped(1)));
    assert_eq!(of(&[], less), Err(Broken::Lost));
    assert_eq!(of(&[FILE], more.clone()), Ok(Mended::NothingLost));
    assert_eq!(of(&[], more), Err(Broken::Back));
    let older = Seen { good: 2, older: vec![1], ..Seen::default() };
    assert_eq!(of(&[FILE], older.clone()), Ok(Mended::NothingLost));
    assert_eq!(of(&[], older), Err(Broken::Changed));
    assert_eq!(of(&[FILE], Seen { changed: vec![1], ..whole.clone() }), Err(Broken::Changed));
    assert_eq!(of(&[FILE], Seen { unreadable: vec![1], ..whole.clone() }), Err(Broken::Odd));
    assert_eq!(of(&[FILE], Seen { troubles: said(), ..whole }), Err(Broken::Odd));
}

/// The whole way, on a directory that is damaged in no file: whoever kept these books would see it.
#[test]
fn a_job_that_is_not_as_it_was_is_found_in_a_real_directory() {
    let place = tempfile::tempdir().unwrap();
    let mut prepared = Prepared::make(place.path(), 20_000).unwrap();
    let start = |prepared: &Prepared| {
        let copy = prepared.copy(0).unwrap();
        of_start(&look::start(copy.path(), prepared), &[]).map_err(|(broken, _)| broken)
    };
    let mended = |prepared: &Prepared| {
        let copy = prepared.copy(0).unwrap();
        of_repair(&look::repair(copy.path(), prepared).unwrap(), prepared.live()).map_err(|(broken, _)| broken)
    };
    assert_eq!((start(&prepared), mended(&prepared)), (Ok(Class::Harmless), Ok(Mended::Whole)));
    let (&job, &was) = prepared.live.iter().next().unwrap();
    prepared.live.insert(job, Likeness { put: was.put ^ 1, ..was });
    assert_eq!((start(&prepared), mended(&prepared)), (Err(Broken::Changed), Err(Broken::Changed)));
    prepared.live.insert(job, Likeness { attempt: was.attempt + 1, ..was });
    assert_eq!((start(&prepared), mended(&prepared)), (Err(Broken::Changed), Err(Broken::Changed)));
    prepared.live.remove(&job);
    assert_eq!((start(&prepared), mended(&prepared)), (Err(Broken::Back), Err(Broken::Back)));
    prepared.live.insert(job, was);
    let ended = (0..prepared.jobs()).find(|job| !prepared.live.contains_key(job)).unwrap();
    prepared.live.insert(ended, was);
    assert_eq!((start(&prepared), mended(&prepared)), (Err(Broken::Lost), Err(Broken::Lost)));
    prepared.live.remove(&ended);
    assert!(prepared.is_as_made().unwrap());
}

#[test]
fn equal_seeds_damage_equally_and_all_kinds_come_up() {
    let place = tempfile::tempdir().unwrap();
    let prepared = Prepared::make(place.path(), 20_000).unwrap();
    let of = |seed| Damage::of(&prepared, seed).unwrap();
    assert!((0..50).all(|seed| of(seed) == of(seed)));
    let mut kinds: Vec<&str> = (0..200).map(|seed| of(seed).kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    let mut table = Table::default();
    for seed in 0..20 {
        judge(&mut table, &prepared, &try_one(&prepared, seed, seed % 5 == 0).unwrap());
    }
    assert!(table.is_clean(), "{table}");
    assert_eq!(table.tried(), 20);
    assert!(prepared.is_as_made().unwrap(), "what is linked was written to");
}
