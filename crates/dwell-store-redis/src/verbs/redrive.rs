//! Bringing dead letters back.

use std::sync::Arc;

use dwell_core::state::{self, Command};
use dwell_core::{
    Cursor, Now, Number, Phase, Redrive, RedriveTopic, Redriven, Section, StoreError, Timestamp, TopicError,
};

use crate::inner::{Act, CALL_JOBS, Inner, Looked, Place};

impl Inner {
    pub(crate) async fn redrive(&self, what: Redrive) -> Result<Result<Redriven, TopicError>, StoreError> {
        match what {
            Redrive::Number(number) => {
                let redriven = self.bring_back(&[number], &mut |_, now| now.at).await?;
                Ok(Ok(Redriven { redriven, remaining: 0 }))
            }
            Redrive::Topic(redrive) => self.redrive_topic(&redrive).await,
        }
    }

    async fn redrive_topic(&self, redrive: &RedriveTopic) -> Result<Result<Redriven, TopicError>, StoreError> {
        let Some(letters) = self.numbers_of(redrive, "buried").await? else {
            return Ok(Err(TopicError::NotFound));
        };
        let (buried, meant) = letters;
        let remaining = meant.len().saturating_sub(redrive.max as usize) as u64;
        let mut chosen = meant;
        if buried == 0 && redrive.else_delayed {
            chosen = self.numbers_of(redrive, "delayed").await?.map_or_else(Vec::new, |(_, numbers)| numbers);
        }
        chosen.truncate(redrive.max as usize);
        let mut first = None;
        let mut due_at = |k: u64, now: Now| redrive.due_at(k, *first.get_or_insert(now));
        let redriven = self.bring_back(&chosen, &mut due_at).await?;
        Ok(Ok(Redriven { redriven, remaining }))
    }

    /// The jobs of a topic in one state: how many, and which of them are meant, by due time, then number. Of delayed jobs
    /// all are meant, and only as many are looked at as may come back.
    async fn numbers_of(
        &self,
        redrive: &RedriveTopic,
        section: &str,
    ) -> Result<Option<(u64, Vec<Number>)>, StoreError> {
        let (mut there, mut meant) = (0, Vec::new());
        let mut after = None;
        loop {
            let chunk = self.chunk(&redrive.topic, section, after, CALL_JOBS, "-1").await?;
            let Some(chunk) = chunk else { return Ok(None) };
            for live in &chunk.jobs {
                there += 1;
                let is_meant = match &live.job.phase {
                    Phase::Buried(burial) => redrive.matches(&live.job.id, &burial.reason),
                    Phase::Waiting | Phase::Leased(_) => true,
                };
                if is_meant {
                    meant.push(live.job.number);
                }
                after = Some(Cursor {
                    section: Section::of(live.job.state(chunk.now.at)),
                    due_at: live.job.due_at,
                    number: live.job.number,
                });
            }
            let enough = section == "delayed" && meant.len() >= redrive.max as usize;
            if !chunk.more || enough {
                return Ok(Some((there, meant)));
            }
        }
    }

    /// Redrives jobs of one partition, in order; how many were.
    async fn bring_back(
        &self,
        numbers: &[Number],
        due_at: &mut (dyn FnMut(u64, Now) -> Timestamp + Send),
    ) -> Result<u64, StoreError> {
        let Some(first) = numbers.first() else { return Ok(0) };
        let partition = self.keys.of_number(*first);
        let mut redriven = vec![false; numbers.len()];
        let places = numbers.iter().enumerate().map(|(k, number)| (k, Place::Number(*number))).collect();
        let mut decide = |k: usize, looked: &mut Looked, now: Now| {
            redriven[k] = false;
            let Looked::Live(live) = looked else { return (Act::Leave, Vec::new()) };
            let policy = Arc::clone(&live.policy);
            let command = Command::Redrive { due_at: due_at(k as u64, now) };
            let was_buried = matches!(live.job.phase, Phase::Buried(_));
            if state::apply(&mut live.job, command, &self.moment(now, &policy)).is_err() {
                return (Act::Leave, Vec::new());
            }
            redriven[k] = true;
            let mut totals = vec![("redriven", 1)];
            if !was_buried && matches!(live.job.phase, Phase::Buried(_)) {
                totals.push(("buried", 1));
            }
            (Act::Set { blob: false }, totals)
        };
        self.update(partition, places, false, &mut decide).await?;
        Ok(redriven.into_iter().filter(|redriven| *redriven).count() as u64)
    }
}
