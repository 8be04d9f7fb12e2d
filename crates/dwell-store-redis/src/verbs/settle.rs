//! Settling leases: an ack is one call; every other verdict is the core's rule on what was read, done by version.

use std::collections::BTreeMap;

use dwell_core::state::{self, Command};
use dwell_core::{LeaseLost, Phase, Settle, StoreError, Verdict};
use futures_util::future::try_join_all;

use crate::inner::{Act, CALL_JOBS, Inner, Looked, Place, rows_of_ints};
use crate::record::number_bytes;
use crate::script;

type Answer = Result<(), LeaseLost>;

impl Inner {
    pub(crate) async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Answer>, StoreError> {
        let mut answers = vec![Err(LeaseLost); items.len()];
        let mut partitions: BTreeMap<usize, Vec<(usize, Settle)>> = BTreeMap::new();
        for (place, item) in items.into_iter().enumerate() {
            partitions.entry(self.keys.of_number(item.token.number)).or_default().push((place, item));
        }
        let done = partitions.into_iter().map(|(partition, items)| self.settle_in(partition, items));
        for (place, answer) in try_join_all(done).await?.into_iter().flatten() {
            answers[place] = answer;
        }
        Ok(answers)
    }

    /// Settles leases of one partition, in order: a row of acks at once, a row of others at once.
    async fn settle_in(
        &self,
        partition: usize,
        items: Vec<(usize, Settle)>,
    ) -> Result<Vec<(usize, Answer)>, StoreError> {
        let mut answers = Vec::with_capacity(items.len());
        let is_ack = |item: &(usize, Settle)| matches!(item.1.verdict, Verdict::Ack);
        for row in items.chunk_by(|one, other| is_ack(one) == is_ack(other)) {
            if is_ack(&row[0]) {
                for chunk in row.chunks(CALL_JOBS) {
                    answers.extend(self.ack(partition, chunk).await?);
                }
            } else {
                answers.extend(self.judge_row(partition, row).await?);
            }
        }
        Ok(answers)
    }

    async fn ack(&self, partition: usize, items: &[(usize, Settle)]) -> Result<Vec<(usize, Answer)>, StoreError> {
        let mut call = self.call(&script::ACK, partition).flag(false);
        for (_, item) in items {
            call.push(number_bytes(item.token.number));
            let version = crate::record::version_bytes(item.token.version);
            call.push([&version[..], &item.token.secret.to_be_bytes()].concat());
        }
        let codes = rows_of_ints(self.run(call).await?)?;
        Ok(items
            .iter()
            .zip(codes)
            .map(|((place, _), code)| (*place, if code == 1 { Ok(()) } else { Err(LeaseLost) }))
            .collect())
    }

    async fn judge_row(&self, partition: usize, row: &[(usize, Settle)]) -> Result<Vec<(usize, Answer)>, StoreError> {
        let mut answers: Vec<Answer> = vec![Err(LeaseLost); row.len()];
        let items = row.iter().enumerate().map(|(k, (_, item))| (k, Place::Number(item.token.number))).collect();
        let mut decide = |k: usize, looked: &mut Looked, now| {
            answers[k] = Err(LeaseLost);
            let Looked::Live(live) = looked else { return (Act::Leave, Vec::new()) };
            let Settle { token, verdict, delivery } = row[k].1.clone();
            let mut totals = match verdict {
                Verdict::Nack { .. } => vec![("nacked", 1)],
                Verdict::Release { .. } => vec![("released", 1)],
                Verdict::Ack | Verdict::Bury { .. } | Verdict::Extend { .. } => Vec::new(),
            };
            let was_buried = matches!(live.job.phase, Phase::Buried(_));
            let policy = std::sync::Arc::clone(&live.policy);
            let command = Command::Settle { token, verdict, delivery };
            if state::apply(&mut live.job, command, &self.moment(now, &policy)).is_err() {
                return (Act::Leave, Vec::new());
            }
            answers[k] = Ok(());
            if !was_buried && matches!(live.job.phase, Phase::Buried(_)) {
                totals.push(("buried", 1));
            }
            (Act::Set { blob: false }, totals)
        };
        self.update(partition, items, false, &mut decide).await?;
        Ok(row.iter().map(|(place, _)| *place).zip(answers).collect())
    }
}
