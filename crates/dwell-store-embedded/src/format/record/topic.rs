//! The record of a topic, and the policies and targets that topics and jobs share.
//!
//! ```text
//! flags (2 bytes) │ topic │ name │ [ttr] │ [retry] │ [ttl] │ [deliver_to] │ secrets: count, each
//! │ [max_in_flight] │ [max_rate] (8 bytes) │ [keep_buried] │ [keep_done] │ [paused until] │ ten totals
//! │ forgotten
//! ```
//!
//! A retry policy: attempts, then 0 and the steps of a ladder after their count, or 1 and initial, max, factor (8
//! bytes), jitter (8 bytes). A target: address, origin.

use std::num::NonZeroU32;

use dwell_core::{
    Backoff, Delay, Exponential, Ladder, Pause, Rate, RetryPolicy, Secret, Target, TopicName, TopicPolicy, Totals,
    limits,
};

use super::job::{ttl, ttr};
use super::{TopicId, TopicRecord, timestamp};
use crate::format::bytes::{Damage, Reader, put_bytes, put_text, put_u16, put_u64, put_varint};

const TTR: u16 = 1 << 0;
const RETRY: u16 = 1 << 1;
const TTL: u16 = 1 << 2;
const DELIVER_TO: u16 = 1 << 3;
const MAX_IN_FLIGHT: u16 = 1 << 4;
const MAX_RATE: u16 = 1 << 5;
const KEEP_BURIED: u16 = 1 << 6;
const KEEP_DONE: u16 = 1 << 7;
const PAUSED: u16 = 1 << 8;
const PAUSED_UNTIL: u16 = 1 << 9;
const UNUSED: u16 = !((1 << 10) - 1);

const LADDER: u8 = 0;
const EXPONENTIAL: u8 = 1;

/// Appends the fields of a topic.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    id: TopicId,
    name: &TopicName,
    policy: &TopicPolicy,
    pause: Pause,
    totals: &Totals,
    forgotten: u64,
) {
    put_u16(out, flags(policy, pause));
    put_varint(out, id.0.into());
    put_text(out, name.as_str());
    put_policy(out, policy);
    if let Pause::Until(until) = pause {
        put_varint(out, until.as_millis());
    }
    put_totals(out, totals);
    put_varint(out, forgotten);
}

fn flags(policy: &TopicPolicy, pause: Pause) -> u16 {
    let flag = |set: bool, flag: u16| if set { flag } else { 0 };
    let pause = match pause {
        Pause::Off => 0,
        Pause::On => PAUSED,
        Pause::Until(_) => PAUSED_UNTIL,
    };
    pause
        | flag(policy.ttr.is_some(), TTR)
        | flag(policy.retry.is_some(), RETRY)
        | flag(policy.ttl.is_some(), TTL)
        | flag(policy.deliver_to.is_some(), DELIVER_TO)
        | flag(policy.max_in_flight.is_some(), MAX_IN_FLIGHT)
        | flag(policy.max_rate.is_some(), MAX_RATE)
        | flag(policy.keep_buried.is_some(), KEEP_BURIED)
        | flag(policy.keep_done.is_some(), KEEP_DONE)
}

fn put_policy(out: &mut Vec<u8>, policy: &TopicPolicy) {
    if let Some(ttr) = policy.ttr {
        put_varint(out, ttr.as_millis());
    }
    if let Some(retry) = &policy.retry {
        put_retry(out, retry);
    }
    if let Some(ttl) = policy.ttl {
        put_varint(out, ttl.as_millis());
    }
    if let Some(target) = &policy.deliver_to {
        put_target(out, target);
    }
    put_varint(out, policy.deliver_secrets.len() as u64);
    for secret in &policy.deliver_secrets {
        put_bytes(out, secret.expose());
    }
    if let Some(most) = policy.max_in_flight {
        put_varint(out, most.get().into());
    }
    if let Some(rate) = policy.max_rate {
        put_u64(out, rate.as_per_second().to_bits());
    }
    for keep in [policy.keep_buried, policy.keep_done].into_iter().flatten() {
        put_varint(out, keep.as_millis());
    }
}

fn put_totals(out: &mut Vec<u8>, totals: &Totals) {
    let Totals { put, leased, acked, nacked, timed_out, released, buried, redriven, cancelled, purged } = *totals;
    for total in [put, leased, acked, nacked, timed_out, released, buried, redriven, cancelled, purged] {
        put_varint(out, total);
    }
}

/// Writes what [`retry`] reads.
pub(super) fn put_retry(out: &mut Vec<u8>, policy: &RetryPolicy) {
    put_varint(out, policy.attempts.get().into());
    match &policy.backoff {
        Backoff::Ladder(ladder) => {
            out.push(LADDER);
            put_varint(out, ladder.steps().len() as u64);
            for step in ladder.steps() {
                put_varint(out, step.as_millis());
            }
        }
        Backoff::Exponential(exponential) => {
            out.push(EXPONENTIAL);
            put_varint(out, exponential.initial().as_millis());
            put_varint(out, exponential.max().as_millis());
            put_u64(out, exponential.factor().to_bits());
            put_u64(out, exponential.jitter().to_bits());
        }
    }
}

/// Writes what [`target`] reads.
pub(super) fn put_target(out: &mut Vec<u8>, target: &Target) {
    put_text(out, target.address());
    put_text(out, target.origin());
}

/// Reads the fields of a topic.
pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<TopicRecord, Damage> {
    let flags = reader.u16()?;
    if flags & UNUSED != 0 || flags & (PAUSED | PAUSED_UNTIL) == PAUSED | PAUSED_UNTIL {
        return Err(reader.invalid("flag"));
    }
    let id = TopicId(reader.varint_u32()?);
    let name = TopicName::new(reader.text(limits::MAX_TOPIC_NAME)?).map_err(|_| reader.invalid("topic name"))?;
    let policy = policy(reader, flags)?;
    let pause = if flags & PAUSED_UNTIL != 0 {
        Pause::Until(timestamp(reader)?)
    } else if flags & PAUSED != 0 {
        Pause::On
    } else {
        Pause::Off
    };
    Ok(TopicRecord { id, name, policy, pause, totals: totals(reader)?, forgotten: reader.varint()? })
}

fn policy(reader: &mut Reader<'_>, flags: u16) -> Result<TopicPolicy, Damage> {
    let has = |flag| flags & flag != 0;
    Ok(TopicPolicy {
        ttr: if has(TTR) { Some(ttr(reader)?) } else { None },
        retry: if has(RETRY) { Some(retry(reader)?) } else { None },
        ttl: if has(TTL) { Some(ttl(reader)?) } else { None },
        deliver_to: if has(DELIVER_TO) { Some(target(reader)?) } else { None },
        deliver_secrets: secrets(reader)?,
        max_in_flight: if has(MAX_IN_FLIGHT) { Some(non_zero(reader)?) } else { None },
        max_rate: if has(MAX_RATE) { Some(rate(reader)?) } else { None },
        keep_buried: if has(KEEP_BURIED) { Some(delay(reader)?) } else { None },
        keep_done: if has(KEEP_DONE) { Some(delay(reader)?) } else { None },
    })
}

fn secrets(reader: &mut Reader<'_>) -> Result<Vec<Secret>, Damage> {
    let count = reader.length(reader.remaining())?;
    let mut secrets = Vec::with_capacity(count.min(limits::MAX_SECRETS));
    for _ in 0..count {
        let key = reader.bytes(limits::MAX_SECRET)?;
        secrets.push(Secret::new(key).ok_or_else(|| reader.invalid("secret"))?);
    }
    Ok(secrets)
}

fn totals(reader: &mut Reader<'_>) -> Result<Totals, Damage> {
    Ok(Totals {
        put: reader.varint()?,
        leased: reader.varint()?,
        acked: reader.varint()?,
        nacked: reader.varint()?,
        timed_out: reader.varint()?,
        released: reader.varint()?,
        buried: reader.varint()?,
        redriven: reader.varint()?,
        cancelled: reader.varint()?,
        purged: reader.varint()?,
    })
}

/// Reads a retry policy.
pub(super) fn retry(reader: &mut Reader<'_>) -> Result<RetryPolicy, Damage> {
    let attempts = non_zero(reader)?;
    let backoff = match reader.u8()? {
        LADDER => ladder(reader).map(Backoff::Ladder)?,
        EXPONENTIAL => exponential(reader).map(Backoff::Exponential)?,
        _ => return Err(reader.invalid("kind of backoff")),
    };
    Ok(RetryPolicy { attempts, backoff })
}

fn ladder(reader: &mut Reader<'_>) -> Result<Ladder, Damage> {
    let count = reader.length(limits::MAX_LADDER)?;
    let steps = (0..count).map(|_| delay(reader)).collect::<Result<Vec<_>, _>>()?;
    Ladder::new(&steps).map_err(|_| reader.invalid("ladder"))
}

fn exponential(reader: &mut Reader<'_>) -> Result<Exponential, Damage> {
    let (initial, max) = (delay(reader)?, delay(reader)?);
    let (factor, jitter) = (f64::from_bits(reader.u64()?), f64::from_bits(reader.u64()?));
    Exponential::new(initial, factor, max, jitter).map_err(|_| reader.invalid("backoff"))
}

/// Reads a target.
pub(super) fn target(reader: &mut Reader<'_>) -> Result<Target, Damage> {
    let (address, origin) = (reader.text(limits::MAX_TARGET)?, reader.text(limits::MAX_TARGET)?);
    Target::new(address, origin).map_err(|_| reader.invalid("target"))
}

fn non_zero(reader: &mut Reader<'_>) -> Result<NonZeroU32, Damage> {
    NonZeroU32::new(reader.varint_u32()?).ok_or_else(|| reader.invalid("number above zero"))
}

fn rate(reader: &mut Reader<'_>) -> Result<Rate, Damage> {
    Rate::per_second(f64::from_bits(reader.u64()?)).ok_or_else(|| reader.invalid("rate"))
}

fn delay(reader: &mut Reader<'_>) -> Result<Delay, Damage> {
    let millis = reader.varint()?;
    Delay::from_millis(millis).map_err(|_| reader.invalid("delay"))
}
