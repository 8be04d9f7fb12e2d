//! Changing, moving and cancelling jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use dwell_core::state::{self, Command};
use dwell_core::{CancelError, CancelItem, ChangeError, ChangeItem, JobRef, JobView, Phase, StoreError};
use futures_util::future::try_join_all;

use crate::inner::{Act, Inner, Looked, Place};

impl Inner {
    pub(crate) fn partition_of(&self, job: &JobRef) -> usize {
        match job {
            JobRef::Named(topic, _) => self.keys.of_topic(topic),
            JobRef::Number(number) => self.keys.of_number(*number),
        }
    }

    /// Items by the partition they are in, each with its place in the batch.
    pub(crate) fn by_partition<T>(
        &self,
        items: Vec<T>,
        job: impl Fn(&T) -> &JobRef,
    ) -> BTreeMap<usize, Vec<(usize, T)>> {
        let mut partitions: BTreeMap<usize, Vec<(usize, T)>> = BTreeMap::new();
        for (place, item) in items.into_iter().enumerate() {
            partitions.entry(self.partition_of(job(&item))).or_default().push((place, item));
        }
        partitions
    }

    pub(crate) async fn change(&self, items: Vec<ChangeItem>) -> Result<Vec<Result<JobView, ChangeError>>, StoreError> {
        let mut answers: Vec<Result<JobView, ChangeError>> = Vec::new();
        answers.resize_with(items.len(), || Err(ChangeError::NotFound));
        let partitions = self.by_partition(items, |item| &item.job);
        let done = partitions.into_iter().map(|(partition, items)| self.change_in(partition, items));
        for (place, answer) in try_join_all(done).await?.into_iter().flatten() {
            answers[place] = answer;
        }
        Ok(answers)
    }

    async fn change_in(
        &self,
        partition: usize,
        items: Vec<(usize, ChangeItem)>,
    ) -> Result<Vec<(usize, Result<JobView, ChangeError>)>, StoreError> {
        let mut refused: Vec<Option<ChangeError>> = vec![None; items.len()];
        let places = items.iter().enumerate().map(|(k, (_, item))| (k, Place::from(item.job.clone()))).collect();
        let mut decide = |k: usize, looked: &mut Looked, now| {
            let item = &items[k].1;
            let Looked::Live(live) = looked else {
                refused[k] = Some(ChangeError::NotFound);
                return (Act::Leave, Vec::new());
            };
            if item.if_match.is_some_and(|wanted| live.job.version != wanted) {
                refused[k] = Some(ChangeError::VersionMismatch);
                return (Act::Leave, Vec::new());
            }
            let was_buried = matches!(live.job.phase, Phase::Buried(_));
            let policy = Arc::clone(&live.policy);
            let command = Command::Change { change: Box::new(item.change.clone()), force: item.force };
            match state::apply(&mut live.job, command, &self.moment(now, &policy)) {
                Ok(_) => {
                    refused[k] = None;
                    let buried = !was_buried && matches!(live.job.phase, Phase::Buried(_));
                    (Act::Set { blob: true }, if buried { vec![("buried", 1)] } else { Vec::new() })
                }
                Err(refusal) => {
                    refused[k] = Some(refusal.into());
                    (Act::Leave, Vec::new())
                }
            }
        };
        let looked = self.update(partition, places, true, &mut decide).await?;
        let answer = |(k, looked, now): (usize, Looked, dwell_core::Now)| match (refused[k], looked) {
            (None, Looked::Live(live)) => (items[k].0, Ok(self.view(*live, now.at))),
            (error, _) => (items[k].0, Err(error.unwrap_or(ChangeError::NotFound))),
        };
        Ok(looked.into_iter().map(answer).collect())
    }

    pub(crate) async fn cancel(&self, items: Vec<CancelItem>) -> Result<Vec<Result<(), CancelError>>, StoreError> {
        let mut answers = vec![Err(CancelError::NotFound); items.len()];
        let partitions = self.by_partition(items, |item| &item.job);
        let done = partitions.into_iter().map(|(partition, items)| self.cancel_in(partition, items));
        for (place, answer) in try_join_all(done).await?.into_iter().flatten() {
            answers[place] = answer;
        }
        Ok(answers)
    }

    async fn cancel_in(
        &self,
        partition: usize,
        items: Vec<(usize, CancelItem)>,
    ) -> Result<Vec<(usize, Result<(), CancelError>)>, StoreError> {
        let mut answers: Vec<Result<(), CancelError>> = vec![Err(CancelError::NotFound); items.len()];
        let places = items.iter().enumerate().map(|(k, (_, item))| (k, Place::from(item.job.clone()))).collect();
        let mut decide = |k: usize, looked: &mut Looked, now| {
            let item = &items[k].1;
            let Looked::Live(live) = looked else {
                answers[k] = Err(CancelError::NotFound);
                return (Act::Leave, Vec::new());
            };
            if item.if_match.is_some_and(|wanted| live.job.version != wanted) {
                answers[k] = Err(CancelError::VersionMismatch);
                return (Act::Leave, Vec::new());
            }
            let policy = Arc::clone(&live.policy);
            let command = Command::Cancel { force: item.force };
            if state::apply(&mut live.job, command, &self.moment(now, &policy)).is_err() {
                answers[k] = Err(CancelError::JobLeased);
                return (Act::Leave, Vec::new());
            }
            answers[k] = Ok(());
            (Act::Remove, vec![("cancelled", 1)])
        };
        self.update(partition, places, false, &mut decide).await?;
        Ok(items.iter().map(|(place, _)| *place).zip(answers).collect())
    }
}
