//! Connections: one to a single Redis or to the master that sentinels name, or one to each node of a cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, ProtocolVersion, PushInfo, RedisError, RedisResult,
    TlsMode, Value, cmd,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Call;
use crate::address::Address;
use crate::keys::crc16;

/// How long an answer may take before the connection counts as broken.
const ANSWER: Duration = Duration::from_secs(3);
/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(2);
/// How long replicas may take to confirm.
const CONFIRM: u64 = 1_000;

/// Gets what the engine says unasked.
pub(super) type Pushes = tokio::sync::mpsc::UnboundedSender<PushInfo>;

/// The connection, made anew when it breaks.
pub(crate) enum Connection {
    /// One node at a time.
    One(One),
    /// A cluster, whose library keeps the connections.
    Cluster(Box<Many>),
}

/// A cluster. The library learns of a fail-over from nodes that answer; a node that is dead tells it nothing, and it asks
/// that one again and again. So after an error of a connection we begin anew from the nodes we know.
pub(crate) struct Many {
    client: ClusterClient,
    current: Mutex<(u64, ClusterConnection)>,
    renewed: std::sync::Mutex<Instant>,
}

/// How long a view of a cluster is kept before an error makes us look anew.
const RENEWAL: Duration = Duration::from_millis(500);

/// One node: a single Redis, or whichever is the master.
pub(crate) struct One {
    source: Source,
    current: Mutex<Current>,
}

/// The connection of one node.
struct Current {
    connection: Option<MultiplexedConnection>,
    /// How many have been made before it.
    made: u64,
    /// When the last attempt to make one failed, and why.
    failed: Option<(Instant, RedisError)>,
}

enum Source {
    Single(Box<Client>),
    Sentinel(Arc<Mutex<SentinelClient>>),
}

impl Connection {
    pub(crate) async fn open(address: &Address) -> RedisResult<Self> {
        Self::with_pushes(address, None).await
    }

    /// The same, on a connection whose pushes are heard.
    pub(super) async fn with_pushes(address: &Address, pushes: Option<Pushes>) -> RedisResult<Self> {
        // Whoever was first has chosen; there is only one to choose from.
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        match address {
            Address::Cluster(nodes) => {
                let client = cluster(nodes.clone(), pushes)?;
                let connection = client.get_async_connection().await?;
                let renewed = std::sync::Mutex::new(Instant::now());
                Ok(Self::Cluster(Box::new(Many { client, current: Mutex::new((0, connection)), renewed })))
            }
            Address::Single(node) => {
                let source = Source::Single(Box::new(Client::open((**node).clone())?));
                Self::one(source, pushes).await
            }
            Address::Sentinel(sentinels) => {
                let mut builder = SentinelClientBuilder::new(
                    sentinels.nodes.iter().map(|node| node.addr().clone()),
                    sentinels.master.clone(),
                    SentinelServerType::Master,
                )?;
                let redis = sentinels.redis.redis_settings();
                builder =
                    builder.set_client_to_redis_db(redis.db()).set_client_to_redis_protocol(ProtocolVersion::RESP3);
                builder = builder.set_client_to_redis_tcp_settings(sentinels.redis.tcp_settings().clone());
                if let Some(user) = redis.username() {
                    builder = builder.set_client_to_redis_username(user);
                }
                if let Some(password) = redis.password() {
                    builder = builder.set_client_to_redis_password(password);
                }
                if sentinels.tls {
                    builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
                    builder = builder.set_client_to_sentinel_tls_mode(TlsMode::Secure);
                }
                Self::one(Source::Sentinel(Arc::new(Mutex::new(builder.build()?))), pushes).await
            }
        }
    }

    async fn one(source: Source, pushes: Option<Pushes>) -> RedisResult<Self> {
        let connection = source.connect(pushes).await?;
        let current = Current { connection: Some(connection), made: 0, failed: None };
        Ok(Self::One(One { source, current: Mutex::new(current) }))
    }

    /// Runs a script once; its answer, and how many replicas have confirmed it if that was asked for.
    pub(super) async fn run(&self, call: &Call, replicas: u32) -> RedisResult<(Value, i64)> {
        let mut evalsha = cmd("EVALSHA");
        evalsha.arg(call.script.hash()).arg(1).arg(&call.key);
        for argument in &call.arguments {
            evalsha.arg(argument.as_slice());
        }
        if replicas == 0 {
            return Ok((self.query(evalsha, &call.key).await?, 0));
        }
        let mut both = Pipeline::new();
        both.add_command(evalsha);
        both.add_command(cmd("WAIT").arg(replicas).arg(CONFIRM).take());
        let mut answers = self.query_both(both, &call.key).await?.into_iter();
        let (answer, confirmed) = (answers.next(), answers.next());
        let answer = answer.unwrap_or(Value::Nil).extract_error()?;
        Ok((answer, redis::from_redis_value(confirmed.unwrap_or(Value::Nil))?))
    }

    /// Gives the engine a script that it does not know.
    pub(super) async fn load(&self, call: &Call) -> RedisResult<()> {
        self.query(cmd("SCRIPT").arg("LOAD").arg(call.script.text()).take(), &call.key).await.map(|_| ())
    }

    /// Sends one command to the node that has `key`.
    pub(crate) async fn query(&self, command: Cmd, key: &str) -> RedisResult<Value> {
        match self {
            Self::Cluster(cluster) => {
                let (made, mut connection) = cluster.get().await;
                let answer = connection.route_command(command, RoutingInfo::SingleNode(route(key))).await;
                cluster.judge(made, answer.and_then(Value::extract_error)).await
            }
            Self::One(one) => {
                let (made, mut connection) = one.get().await?;
                let answer = connection.req_packed_command(&command).await.and_then(Value::extract_error);
                one.judge(made, answer).await
            }
        }
    }

    async fn query_both(&self, both: Pipeline, key: &str) -> RedisResult<Vec<Value>> {
        match self {
            Self::Cluster(cluster) => {
                let (made, mut connection) = cluster.get().await;
                let answers = connection.route_pipeline(both, 0, 2, route(key)).await;
                cluster.judge(made, answers).await
            }
            Self::One(one) => {
                let (made, mut connection) = one.get().await?;
                let answer = connection.req_packed_commands(&both, 0, 2).await;
                one.judge(made, answer).await
            }
        }
    }

    /// Asks every master; their names and answers.
    pub(crate) async fn ask_masters(&self, command: Cmd) -> RedisResult<Vec<(String, Value)>> {
        match self {
            Self::Cluster(cluster) => {
                let everywhere = (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::Special));
                let (made, mut connection) = cluster.get().await;
                let answer = connection.route_command(command, RoutingInfo::MultiNode(everywhere)).await;
                let answer = cluster.judge(made, answer).await?;
                let answers: Vec<(String, Value)> = match answer {
                    Value::Map(pairs) => {
                        let name = |name: Value| redis::from_redis_value(name).unwrap_or_default();
                        pairs.into_iter().map(|(node, answer)| (name(node), answer)).collect()
                    }
                    other => vec![(String::new(), other)],
                };
                Ok(answers)
            }
            Self::One(_) => Ok(vec![(String::new(), self.query(command, "").await?)]),
        }
    }

    /// Subscribes to shard channels, here and wherever they are.
    pub(super) async fn subscribe(&self, channels: &[String]) -> RedisResult<()> {
        match self {
            Self::Cluster(cluster) => {
                let (_, mut connection) = cluster.get().await;
                for channel in channels {
                    connection.ssubscribe(channel).await?;
                }
                Ok(())
            }
            Self::One(one) => {
                let (_, mut connection) = one.get().await?;
                // Not through `ssubscribe`: the answer of each is a push, which the caller hears.
                for channel in channels {
                    connection.req_packed_command(&cmd("SSUBSCRIBE").arg(channel).take()).await?;
                }
                Ok(())
            }
        }
    }
}

impl Many {
    async fn get(&self) -> (u64, ClusterConnection) {
        let current = self.current.lock().await;
        (current.0, current.1.clone())
    }

    /// Looks at the cluster anew after an error of a connection, one caller at a time and not too often.
    async fn judge<T>(&self, made: u64, answer: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &answer
            && (is_of_the_connection(error) || error.kind() == redis::ErrorKind::ClusterConnectionNotFound)
            && self.is_time()
            && let Ok(Ok(connection)) = tokio::time::timeout(CONNECT, self.client.get_async_connection()).await
        {
            let mut current = self.current.lock().await;
            if current.0 == made {
                *current = (made + 1, connection);
            }
        }
        answer
    }

    fn is_time(&self) -> bool {
        let mut renewed = self.renewed.lock().expect("nobody panics while holding it");
        let is_time = renewed.elapsed() >= RENEWAL;
        if is_time {
            *renewed = Instant::now();
        }
        is_time
    }
}

impl One {
    async fn get(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        let asked = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            return Ok((current.made, connection.clone()));
        }
        // Those who waited while somebody tried in vain do not try one after the other: that would take as often as long.
        if let Some((_, error)) = current.failed.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        match self.source.connect(None).await {
            Ok(connection) => {
                current.made += 1;
                current.connection = Some(connection.clone());
                Ok((current.made, connection))
            }
            Err(error) => {
                current.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Lets go of a connection that is no good any more: it broke, or its node is no master.
    async fn judge<T>(&self, made: u64, answer: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &answer
            && is_of_the_connection(error)
        {
            let mut current = self.current.lock().await;
            if current.made == made {
                current.connection = None;
            }
        }
        answer
    }
}

fn is_of_the_connection(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout() || matches!(error.code(), Some("READONLY" | "MASTERDOWN"))
}

impl Source {
    async fn connect(&self, pushes: Option<Pushes>) -> RedisResult<MultiplexedConnection> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(Some(ANSWER));
        let config = match pushes {
            Some(pushes) => config.set_push_sender(pushes),
            None => config,
        };
        match self {
            Self::Single(client) => client.get_multiplexed_async_connection_with_config(&config).await,
            Self::Sentinel(client) => client.lock().await.get_async_connection_with_config(&config).await,
        }
    }
}

fn cluster(nodes: Vec<ConnectionInfo>, pushes: Option<Pushes>) -> RedisResult<ClusterClient> {
    // We send again ourselves, so that scripts know of it.
    let builder = ClusterClientBuilder::new(nodes).retries(0).connection_timeout(CONNECT).response_timeout(ANSWER);
    let builder = builder.use_protocol(ProtocolVersion::RESP3).tcp_settings(crate::address::tcp());
    match pushes {
        Some(pushes) => builder.push_sender(pushes).build(),
        None => builder.build(),
    }
}

/// The master of the slot that `key` is in.
fn route(key: &str) -> SingleNodeRoutingInfo {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let slot = crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % 16_384;
    SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master))
}
