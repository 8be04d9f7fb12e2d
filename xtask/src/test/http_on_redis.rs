//! Step `redis`: the tests of every edge once more, on servers that keep their jobs in Redis.

use anyhow::ensure;

use super::tally::Tally;
use super::{packages, stream};
use crate::workspace::{PROFILE, Workspace};

pub(crate) fn run(workspace: &Workspace, tally: &mut Tally) -> anyhow::Result<()> {
    packages::need_all(&[("redis-server", "redis-server")])?;
    let mut command = workspace.cargo("test");
    command.args(["--profile", PROFILE, "--package", "dwell", "--test", "it"]);
    // What is about Redis in any case has been run by the step `tests`, and `dwell beanstalkd` has no Redis.
    let others = ["redis::", "beanstalk::differential", "beanstalk::launcher"];
    let others = others.into_iter().flat_map(|name| ["--skip", name]);
    command.arg("--").args(others).env("DWELL_TEST_STORE", "redis");
    let status = stream::run(&mut command, |line| tally.read_line(line))?;
    ensure!(status.success(), "the edges on Redis: {status}");
    tally.require_some()
}
