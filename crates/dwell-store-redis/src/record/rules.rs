//! Retry policies, targets and topic policies, as stored. The scripts carry them and do not read them.

use std::num::NonZeroU32;

use dwell_core::{Backoff, Delay, Exponential, Ladder, Rate, RetryPolicy, Secret, Target, TopicPolicy, Ttl, Ttr};

use super::bytes::{Reader, Unreadable, Writer};

pub(super) fn write_retry(writer: &mut Writer, retry: Option<&RetryPolicy>) {
    let Some(retry) = retry else {
        writer.uint(0, 1);
        return;
    };
    match &retry.backoff {
        Backoff::Ladder(ladder) => {
            writer.uint(1, 1).uint(retry.attempts.get().into(), 4).uint(ladder.steps().len() as u64, 1);
            for step in ladder.steps() {
                writer.uint(step.as_millis(), 6);
            }
        }
        Backoff::Exponential(exponential) => {
            writer.uint(2, 1).uint(retry.attempts.get().into(), 4);
            writer.uint(exponential.initial().as_millis(), 6).uint(exponential.max().as_millis(), 6);
            writer.uint(exponential.factor().to_bits(), 8).uint(exponential.jitter().to_bits(), 8);
        }
    }
}

pub(super) fn read_retry(reader: &mut Reader<'_>) -> Result<Option<RetryPolicy>, Unreadable> {
    let kind = reader.u8()?;
    if kind == 0 {
        return Ok(None);
    }
    let attempts = NonZeroU32::new(reader.u32()?).ok_or(reader.wrong())?;
    let backoff = match kind {
        1 => {
            let length = reader.u8()?;
            let steps: Result<Vec<_>, _> = (0..length).map(|_| delay(reader)).collect();
            Backoff::Ladder(Ladder::new(&steps?).map_err(|_| reader.wrong())?)
        }
        2 => {
            let (initial, max) = (delay(reader)?, delay(reader)?);
            let (factor, jitter) = (f64::from_bits(reader.uint(8)?), f64::from_bits(reader.uint(8)?));
            Backoff::Exponential(Exponential::new(initial, factor, max, jitter).map_err(|_| reader.wrong())?)
        }
        _ => return Err(reader.wrong()),
    };
    Ok(Some(RetryPolicy { attempts, backoff }))
}

pub(super) fn write_target(writer: &mut Writer, target: Option<&Target>) {
    let (address, origin) = target.map_or(("", ""), |target| (target.address(), target.origin()));
    writer.sized(address.as_bytes(), 2);
    if target.is_some() {
        writer.sized(origin.as_bytes(), 2);
    }
}

pub(super) fn read_target(reader: &mut Reader<'_>) -> Result<Option<Target>, Unreadable> {
    let address = reader.text(2)?;
    if address.is_empty() {
        return Ok(None);
    }
    let origin = reader.text(2)?;
    Target::new(address, origin).map(Some).map_err(|_| reader.wrong())
}

fn delay(reader: &mut Reader<'_>) -> Result<Delay, Unreadable> {
    Delay::from_millis(reader.uint(6)?).map_err(|_| reader.wrong())
}

/// A duration that may be unset: 0 stands for that, anything else is one more than it says.
fn write_maybe(writer: &mut Writer, millis: Option<u64>) {
    writer.uint(millis.map_or(0, |millis| millis + 1), 6);
}

fn read_maybe<T, E>(reader: &mut Reader<'_>, build: impl FnOnce(u64) -> Result<T, E>) -> Result<Option<T>, Unreadable> {
    let millis = reader.uint(6)?.checked_sub(1);
    millis.map(build).transpose().map_err(|_| reader.wrong())
}

/// A topic's policy, as stored.
pub(crate) fn write_policy(policy: &TopicPolicy) -> Vec<u8> {
    let mut writer = Writer::default();
    write_maybe(&mut writer, policy.ttr.map(Ttr::as_millis));
    write_retry(&mut writer, policy.retry.as_ref());
    write_maybe(&mut writer, policy.ttl.map(Ttl::as_millis));
    write_target(&mut writer, policy.deliver_to.as_ref());
    writer.uint(policy.deliver_secrets.len() as u64, 1);
    for secret in &policy.deliver_secrets {
        writer.short(secret.expose());
    }
    writer.uint(policy.max_in_flight.map_or(0, NonZeroU32::get).into(), 4);
    writer.uint(policy.max_rate.map_or(0.0, Rate::as_per_second).to_bits(), 8);
    write_maybe(&mut writer, policy.keep_buried.map(Delay::as_millis));
    write_maybe(&mut writer, policy.keep_done.map(Delay::as_millis));
    writer.into_bytes()
}

/// Reads what [`write_policy`] wrote.
pub(crate) fn read_policy(bytes: &[u8]) -> Result<TopicPolicy, Unreadable> {
    let mut reader = Reader::new(bytes, "policy");
    let policy = TopicPolicy {
        ttr: read_maybe(&mut reader, Ttr::from_millis)?,
        retry: read_retry(&mut reader)?,
        ttl: read_maybe(&mut reader, Ttl::from_millis)?,
        deliver_to: read_target(&mut reader)?,
        deliver_secrets: read_secrets(&mut reader)?,
        max_in_flight: NonZeroU32::new(reader.u32()?),
        max_rate: match f64::from_bits(reader.uint(8)?) {
            0.0 => None,
            rate => Some(Rate::per_second(rate).ok_or(reader.wrong())?),
        },
        keep_buried: read_maybe(&mut reader, Delay::from_millis)?,
        keep_done: read_maybe(&mut reader, Delay::from_millis)?,
    };
    reader.end()?;
    Ok(policy)
}

fn read_secrets(reader: &mut Reader<'_>) -> Result<Vec<Secret>, Unreadable> {
    (0..reader.u8()?).map(|_| Secret::new(reader.sized(1)?).ok_or(reader.wrong())).collect()
}
