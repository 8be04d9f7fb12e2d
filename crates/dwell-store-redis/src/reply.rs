//! Taking apart what scripts answer.

use dwell_core::{Number, StoreError, Timestamp};
use redis::Value;

use crate::link::out_of_reach;
use crate::record::{self, Unreadable};

/// The values of an answer, one after the other.
pub(crate) struct Reply(std::vec::IntoIter<Value>);

impl From<Unreadable> for StoreError {
    fn from(unreadable: Unreadable) -> Self {
        out_of_reach(unreadable.to_string())
    }
}

fn strange() -> Unreadable {
    Unreadable("answer")
}

impl Reply {
    pub(crate) fn new(value: Value) -> Result<Self, Unreadable> {
        list(value).map(|values| Self(values.into_iter()))
    }

    pub(crate) fn value(&mut self) -> Result<Value, Unreadable> {
        self.0.next().ok_or(strange())
    }

    pub(crate) fn int(&mut self) -> Result<i64, Unreadable> {
        int(&self.value()?)
    }

    pub(crate) fn count(&mut self) -> Result<u64, Unreadable> {
        u64::try_from(self.int()?).map_err(|_| strange())
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Unreadable> {
        record::read_time(self.int()?)
    }

    /// An instant, or -1 for none.
    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>, Unreadable> {
        match self.int()? {
            -1 => Ok(None),
            millis => record::read_time(millis).map(Some),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Unreadable> {
        bytes(self.value()?)
    }

    pub(crate) fn text(&mut self) -> Result<String, Unreadable> {
        String::from_utf8(self.bytes()?).map_err(|_| strange())
    }

    pub(crate) fn number(&mut self) -> Result<Number, Unreadable> {
        record::read_number(&self.bytes()?)
    }

    pub(crate) fn list(&mut self) -> Result<Vec<Value>, Unreadable> {
        list(self.value()?)
    }

    /// A list whose items are lists.
    pub(crate) fn rows(&mut self) -> Result<Vec<Self>, Unreadable> {
        self.list()?.into_iter().map(Self::new).collect()
    }
}

pub(crate) fn int(value: &Value) -> Result<i64, Unreadable> {
    match value {
        Value::Int(int) => Ok(*int),
        _ => Err(strange()),
    }
}

pub(crate) fn bytes(value: Value) -> Result<Vec<u8>, Unreadable> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        _ => Err(strange()),
    }
}

pub(crate) fn list(value: Value) -> Result<Vec<Value>, Unreadable> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        _ => Err(strange()),
    }
}

impl Reply {
    /// The values left, each a list.
    pub(crate) fn into_rows(self) -> Result<Vec<Self>, Unreadable> {
        self.0.map(Self::new).collect()
    }
}
