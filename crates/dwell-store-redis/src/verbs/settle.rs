//! Settling leases: an ack is one call; every other verdict is the core's rule on what was read, done by version.

use std::collections::BTreeMap;
use std::sync::Arc;

use dwell_core::state::{self, Command};
use dwell_core::{LeaseLost, LeaseToken, Phase, Settle, StoreError, Verdict};
use futures_util::future::try_join_all;

use crate::gather::{FEW, Gather, Part, together};
use crate::inner::{Act, CALL_JOBS, Inner, Looked, Place};
use crate::record::{Unreadable, Writer};
use crate::script;

type Answer = Result<(), LeaseLost>;

/// Acks on their way, by partition.
pub(crate) type Acks = Gather<usize, LeaseToken, Result<Vec<Answer>, StoreError>>;

impl Inner {
    pub(crate) async fn settle(self: &Arc<Self>, items: Vec<Settle>) -> Result<Vec<Answer>, StoreError> {
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
        self: &Arc<Self>,
        partition: usize,
        items: Vec<(usize, Settle)>,
    ) -> Result<Vec<(usize, Answer)>, StoreError> {
        let mut answers = Vec::with_capacity(items.len());
        let is_ack = |item: &(usize, Settle)| matches!(item.1.verdict, Verdict::Ack);
        for row in items.chunk_by(|one, other| is_ack(one) == is_ack(other)) {
            if is_ack(&row[0]) {
                for chunk in row.chunks(CALL_JOBS) {
                    let tokens = chunk.iter().map(|(_, item)| item.token).collect();
                    let acked = self.ack(partition, tokens).await?;
                    answers.extend(chunk.iter().map(|(place, _)| *place).zip(acked));
                }
            } else {
                answers.extend(self.judge_row(partition, row).await?);
            }
        }
        Ok(answers)
    }

    /// Acks leases: a few together with others of their partition that come meanwhile.
    async fn ack(self: &Arc<Self>, partition: usize, tokens: Vec<LeaseToken>) -> Result<Vec<Answer>, StoreError> {
        if tokens.len() > FEW {
            return self.ack_call(partition, &tokens).await;
        }
        let answer = together(self, |inner| &inner.acks, partition, (tokens, 0), Self::ack_parts).await;
        answer.unwrap_or(Err(StoreError::Closed))
    }

    async fn ack_parts(
        self: Arc<Self>,
        partition: usize,
        parts: Vec<Part<LeaseToken, Result<Vec<Answer>, StoreError>>>,
    ) {
        let tokens: Vec<LeaseToken> = parts.iter().flat_map(|part| &part.items).copied().collect();
        let mut acked = self.ack_call(partition, &tokens).await.map(Vec::into_iter);
        for part in parts {
            let mine = match &mut acked {
                Ok(acked) => Ok(acked.by_ref().take(part.items.len()).collect()),
                Err(error) => Err(error.clone()),
            };
            // Who has gone does not hear it.
            part.answer.send(mine).ok();
        }
    }

    async fn ack_call(&self, partition: usize, tokens: &[LeaseToken]) -> Result<Vec<Answer>, StoreError> {
        let mut call = self.call(&script::ACK, partition).flag(false);
        let mut named = Writer::default();
        for token in tokens {
            named.number(token.number).version(token.version).uint(token.secret, 8);
        }
        call.push(named.into_bytes());
        let codes = crate::reply::bytes(self.run(call).await?)?;
        if codes.len() != tokens.len() {
            return Err(Unreadable("answer").into());
        }
        Ok(codes.into_iter().map(|code| if code == b'1' { Ok(()) } else { Err(LeaseLost) }).collect())
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
            let policy = Arc::clone(&live.policy);
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
