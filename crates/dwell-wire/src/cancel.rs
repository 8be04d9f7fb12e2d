//! Cancelling many jobs at once.

use std::borrow::Cow;

use serde::Serialize;

use crate::json::Fields;

/// Many jobs to be cancelled, each judged on its own.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelJobs<'a> {
    /// At most 10,000.
    #[cfg_attr(feature = "openapi", schema(max_items = 10_000, value_type = Vec<JobName>))]
    pub jobs: Vec<JobName<'a>>,
}

/// Which job.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobName<'a> {
    /// Where it queues.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::job::TopicName))]
    pub topic: Cow<'a, str>,
    /// Your own name for it.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::job::JobId))]
    pub id: Cow<'a, str>,
}

impl<'a> JobName<'a> {
    /// Reads the name of a job.
    pub fn read(fields: &mut Fields<'a>) -> Option<Self> {
        let (topic, id) = (fields.needed("topic", Fields::string), fields.needed("id", Fields::string));
        Some(Self { topic: topic?, id: id? })
    }
}
