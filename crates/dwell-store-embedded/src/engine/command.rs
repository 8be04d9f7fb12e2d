//! What the engine can be told, and whom it answers.

use dwell_core::{
    CancelError, CancelItem, ChangeError, ChangeItem, Found, JobView, LeaseLost, LeaseRequest, LeaseToken, LeasedJob,
    ListQuery, Lookup, NewJob, Page, Purge, PutError, PutOutcome, Redrive, Redriven, SetPause, Settle, StoreError,
    TimelineQuery, TopicError, TopicInfo, TopicName, TopicPolicy, TopicsQuery,
};

use super::Engine;
use super::answers::Reply;

macro_rules! commands {
    ($($name:ident($($field:ident: $type:ty),*) -> $answer:ty = $method:ident;)*) => {
        /// One call of the `Store` trait, with the place its answer goes to.
        pub(crate) enum Command {
            $(
                #[doc = concat!("See `Store::", stringify!($method), "`.")]
                $name { $($field: $type,)* reply: Reply<$answer> },
            )*
            /// See `Store::lease`.
            Lease { request: LeaseRequest, reply: Reply<Vec<LeasedJob>> },
            /// Leases whose receiver went away after they were answered.
            GiveBack { tokens: Vec<LeaseToken> },
        }

        impl Command {
            pub(super) fn run(self, engine: &mut Engine) {
                match self {
                    $(Self::$name { $($field,)* reply } => {
                        let answer = engine.$method($($field),*);
                        engine.answer(reply, answer);
                    })*
                    Self::Lease { request, reply } => engine.lease_or_wait(request, reply),
                    Self::GiveBack { tokens } => engine.give_back(tokens),
                }
            }

            /// Answers with an error instead.
            pub(crate) fn refuse(self, error: StoreError) {
                // A caller that has gone away does not want to know.
                match self {
                    $(Self::$name { reply, .. } => drop(reply.send(Err(error))),)*
                    Self::Lease { reply, .. } => drop(reply.send(Err(error))),
                    Self::GiveBack { .. } => {}
                }
            }
        }
    };
}

commands! {
    Put(jobs: Vec<NewJob>) -> Vec<Result<PutOutcome, PutError>> = put;
    Settle(items: Vec<Settle>) -> Vec<Result<(), LeaseLost>> = settle;
    Change(items: Vec<ChangeItem>) -> Vec<Result<JobView, ChangeError>> = change;
    Cancel(items: Vec<CancelItem>) -> Vec<Result<(), CancelError>> = cancel;
    Get(items: Vec<Lookup>) -> Vec<Option<Found>> = get;
    List(query: ListQuery) -> Result<Page, TopicError> = list;
    Topics(query: TopicsQuery) -> Vec<TopicInfo> = topics;
    Topic(name: TopicName) -> Option<TopicInfo> = topic;
    SetPolicy(name: TopicName, policy: TopicPolicy) -> Result<(), TopicError> = set_policy;
    Pause(name: TopicName, pause: SetPause) -> Result<(), TopicError> = pause;
    Redrive(what: Redrive) -> Result<Redriven, TopicError> = redrive;
    Purge(name: TopicName, what: Purge) -> Result<u64, TopicError> = purge;
    Timeline(query: TimelineQuery) -> Result<Vec<u64>, TopicError> = timeline;
}

impl Command {
    /// Whether it may have something to log.
    pub(crate) fn logs(&self) -> bool {
        let looks = matches!(
            self,
            Self::Get { .. } | Self::List { .. } | Self::Topics { .. } | Self::Topic { .. } | Self::Timeline { .. }
        );
        !looks
    }
}

impl Engine {
    /// Serves those whom the call has made work for, then answers it as soon as what it saw is durable.
    pub(super) fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, value: T) {
        self.serve();
        self.answers.hold(self.batch.last_sequence(), reply, value);
        let lost = self.answers.release(self.batch.durable());
        debug_assert!(lost.is_empty(), "a lease is never durable before it is synced");
    }
}
