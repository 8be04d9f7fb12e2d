//! The scripts, each with what a caller of it must know.

use std::sync::LazyLock;

use redis::Script as Loaded;

/// A script: its text, and how it is repeated after a connection broke.
pub(crate) struct Script {
    /// What the file is called.
    pub(crate) name: &'static str,
    /// Which argument says that this may be a repeat (0-based, the clock is 0).
    pub(crate) repeat: Option<usize>,
    /// Whether its answer promises something, so that replicas may have to confirm it.
    pub(crate) promises: bool,
    text: String,
    loaded: Loaded,
}

impl Script {
    fn new(name: &'static str, body: &str, repeat: Option<usize>, promises: bool, takes_memory: bool) -> Self {
        // What frees memory, or leads to it, must go on when memory is full.
        let flags = if takes_memory { "" } else { " flags=allow-oom" };
        let text = format!("#!lua{flags}\n{}\n{body}", include_str!("scripts/common.lua"));
        Self { name, repeat, promises, loaded: Loaded::new(&text), text }
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Its name to the engine.
    pub(crate) fn hash(&self) -> &str {
        self.loaded.get_hash()
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident: $file:literal, $repeat:expr, $promises:expr, $takes_memory:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new($file, include_str!(concat!("scripts/", $file, ".lua")), $repeat, $promises, $takes_memory)
        });
    )*};
}

scripts! {
    PUT: "put", None, true, true;
    LEASE: "lease", Some(1), true, false;
    ACK: "ack", Some(1), true, false;
    MOVE: "move", Some(1), true, false;
    POLICY: "policy", None, true, false;
    PURGE: "purge", None, true, false;
    READ: "read", None, false, false;
    OVERDUE: "overdue", None, false, false;
    AGENDA: "agenda", None, false, false;
    TOPIC: "topic", None, false, false;
    TOPICS: "topics", None, false, false;
    INDEX: "index", None, false, false;
    PAGE: "page", None, false, false;
    NEXT: "next", None, false, false;
    TIMELINE: "timeline", None, false, false;
    PEEK: "peek", None, false, false;
}
