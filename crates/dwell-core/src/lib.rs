//! The words and the rules of Dwell.
//!
//! A job is put with a time, waits, is handed out under a lease when it is due, and is settled by its holder. This
//! crate says what each of these words means, as types that can only be built valid and as pure functions; and what a
//! store must do, as a trait. It awaits nothing, reads no clock, rolls no dice and does no I/O: time and randomness
//! are arguments.
//!
//! Read it in this order.

pub mod limits;

pub mod names;
pub mod time;

pub mod job;
pub mod payload;
pub mod target;

pub mod lease;
pub mod state;

pub mod policy;
pub mod put;
pub mod retry;

pub mod list;
pub mod topic;

pub mod error;
pub mod store;

pub use error::{CancelError, ChangeError, ErrorKind, LeaseLost, PutError, StoreError, TopicError};
pub use job::{
    Change, Counters, Delivery, DeliveryAnswer, DoneJob, Edit, IfExists, Job, JobView, NewId, NewJob, Number, Options,
    Priority, Version,
};
pub use lease::{Lease, LeaseFrom, LeaseRequest, LeaseToken, LeasedJob, PushLines, Settle, Verdict};
pub use list::{Cursor, ListQuery, Page, Section, TimelineQuery};
pub use names::{Consumer, ErrorText, JobId, Reason, TopicName};
pub use payload::{Body, Headers};
pub use policy::{Defaults, Rate, RateBucket, Rules, Secret, TopicPolicy};
pub use put::{Existing, Found, PutOutcome, PutPlan, Receipt};
pub use retry::{Backoff, Exponential, Ladder, RetryPolicy};
pub use state::{Burial, Phase, State};
pub use store::{Answer, CancelItem, ChangeItem, JobRef, Lookup, Measures, Sizes, Spread, Status, Store};
pub use target::{Line, Target};
pub use time::{Delay, Now, Timestamp, Ttl, Ttr, When};
pub use topic::{Counts, Pause, Purge, Redrive, RedriveTopic, Redriven, SetPause, TopicInfo, TopicsQuery, Totals};
