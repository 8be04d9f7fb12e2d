//! A master, a replica and three sentinels.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use dwell_core::{JobId, LeaseRequest, NewJob, Store, TopicName, When};
use dwell_store_redis::{Address, Clock, Config, RedisStore};
use dwell_store_testkit::exercise;
use tempfile::TempDir;

use crate::server::{Server, ask, free_port, until};
use crate::subject::{prefix, subject};

struct Sentinel {
    port: u16,
    child: Child,
    _directory: TempDir,
}

impl Sentinel {
    fn start(master: u16) -> Self {
        let (port, directory) = (free_port(), tempfile::tempdir().unwrap());
        let path = directory.path().join("sentinel.conf");
        let mut file = std::fs::File::create(&path).unwrap();
        writeln!(file, "port {port}\nbind 127.0.0.1\ndir {}", directory.path().display()).unwrap();
        writeln!(file, "sentinel monitor mymaster 127.0.0.1 {master} 2").unwrap();
        writeln!(file, "sentinel down-after-milliseconds mymaster 1000").unwrap();
        writeln!(file, "sentinel failover-timeout mymaster 5000").unwrap();
        let child = Command::new("redis-server").arg(&path).arg("--sentinel").stdout(Stdio::null()).spawn().unwrap();
        Self { port, child, _directory: directory }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

struct World {
    master: Server,
    _replica: Server,
    sentinels: Vec<Sentinel>,
}

impl World {
    fn start() -> Self {
        let master = Server::start();
        let replica = Server::with(&["--appendonly", "yes", "--replicaof", &format!("127.0.0.1 {}", master.port)]);
        until("the replica follows", || replica.ask(&["INFO", "replication"]).contains("master_link_status:up"));
        let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::start(master.port)).collect();
        // Each must know the replica and the other two, or none of them can decide anything.
        until("the sentinels know each other", || {
            sentinels.iter().all(|sentinel| {
                let said = ask(sentinel.port, &["SENTINEL", "MASTER", "mymaster"]);
                said.contains("num-slaves\n1\n") && said.contains("num-other-sentinels\n2\n")
            })
        });
        Self { master, _replica: replica, sentinels }
    }

    fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis+sentinel://{}/mymaster", hosts.join(","))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_a_store_behind_sentinels() {
    let world = World::start();
    let url = world.url();
    exercise(move |setup| {
        let url = url.clone();
        async move { subject(&url, 8, Clock::engine(), setup).await }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_follows_the_sentinels_to_the_new_master() {
    let mut world = World::start();
    let config = Config { prefix: prefix(), wait: 1, ..Config::new(Address::parse(&world.url()).unwrap()) };
    let store: Arc<dyn Store> = Arc::new(RedisStore::open(&config).await.unwrap());
    let topic = TopicName::new("t").unwrap();
    let job = |id: &str| NewJob::new(topic.clone(), JobId::new(id).unwrap(), When::NOW);
    for k in 0..50 {
        assert!(store.put(vec![job(&k.to_string())]).await.unwrap()[0].is_ok());
    }
    world.master.kill();
    // The replica becomes the master; with none left to confirm, changes are refused, reads and a calmer server are not.
    let calm = Config { wait: 0, ..config };
    let mut tries = 0;
    let calm: Arc<dyn Store> = loop {
        match RedisStore::open(&calm).await {
            Ok(store) => break Arc::new(store),
            Err(error) => assert!(tries < 100, "{error}"),
        }
        tries += 1;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    assert_eq!(calm.lease(LeaseRequest::of(topic.clone()).up_to(100)).await.unwrap().len(), 50, "nothing is lost");
    let info = loop {
        if let Ok(info) = store.topic(topic.clone()).await {
            break info;
        }
    };
    assert!(info.is_some(), "a store that was open follows");
    let refused = store.put(vec![job("unconfirmed")]).await.unwrap_err().to_string();
    assert!(refused.contains("0 of 1 replicas confirmed"), "{refused}");
}
