//! Who imports: the machine and the process, so that one that was killed is known to be over at once by the next on the same
//! machine. Elsewhere it takes as long as it holds on.

use std::path::Path;

/// The name of this import.
pub(super) struct Alone {
    machine: String,
    name: String,
}

impl Alone {
    pub(super) fn new() -> Self {
        let machine = machine();
        let name = format!("process {} on {machine}", std::process::id());
        Self { machine, name }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether another import is certainly over: its process was of this machine and is no more.
    pub(super) fn is_over(&self, other: &str) -> bool {
        let parts = other.strip_prefix("process ").and_then(|rest| rest.split_once(" on "));
        let Some((process, machine)) = parts else { return false };
        let is_known = machine == self.machine && !machine.is_empty() && Path::new("/proc/self").exists();
        is_known && process.parse::<u32>().is_ok_and(|process| !Path::new(&format!("/proc/{process}")).exists())
    }
}

/// The name of this machine and of its start; nothing where the system does not tell.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).ok().map(|text: String| text.trim().to_owned());
    let parts = [read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/random/boot_id")];
    parts.into_iter().collect::<Option<Vec<_>>>().map(|parts| parts.join(" ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certainly_over_is_over() {
        let one = Alone { machine: "here 7".to_owned(), name: String::new() };
        assert!(one.is_over("process 4294967295 on here 7"));
        assert!(!one.is_over(&format!("process {} on here 7", std::process::id())));
        assert!(!one.is_over("process 4294967295 on there 7"));
        assert!(!one.is_over("who knows"));
        let nowhere = Alone { machine: String::new(), name: String::new() };
        assert!(!nowhere.is_over("process 4294967295 on "));
    }
}
