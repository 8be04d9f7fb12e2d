use super::*;

const CAPS: Caps = Caps { total: 100, each: 32, bytes: 1_000 };

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

fn line(index: u16) -> Queue {
    Queue::Line(Line::from_index(index).unwrap())
}

fn of_topic(name: &str) -> Queue {
    Queue::Topic(topic(name))
}

fn answered(status: u16) -> Landing {
    Landing::Answered { status, retry_after: None, answer: Vec::new() }
}

/// A board, and the time it is told.
struct World {
    board: Board,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self { board: Board::new(CAPS, now), now }
    }

    fn place(&mut self, queue: &Queue, origin: &str) -> Place {
        let name = if let Queue::Topic(name) = queue { name.clone() } else { topic("t") };
        self.board.place(queue, &name, &origin.into(), 1, self.now)
    }

    fn go(&mut self, queue: &Queue, origin: &str, times: usize) {
        for _ in 0..times {
            assert_eq!(self.place(queue, origin), Place::Go, "{origin}");
        }
    }

    fn end(&mut self, origin: &str, landing: &Landing, times: usize) -> bool {
        (0..times).fold(false, |news, _| {
            let is_news = self.board.ended(origin, Some(landing), self.now).1;
            self.board.settled(1) || is_news || news
        })
    }

    fn plan(&mut self) -> Plan {
        self.board.plan(self.now)
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }
}

fn blocks(call: &Call, queue: &Queue) -> bool {
    match queue {
        Queue::Line(line) => call.lines.blocked_lines.contains(line),
        Queue::Topic(topic) => call.lines.blocked_topics.contains(topic),
    }
}

#[tokio::test(start_paused = true)]
async fn who_knows_nothing_asks_for_everything() {
    let plan = World::new().plan();
    assert_eq!(plan.now.len(), 1);
    assert_eq!((plan.now[0].max, plan.now[0].lines.per_line), (100, 16));
    let park = plan.park.unwrap();
    assert_eq!((park.lines.per_line, park.lines.blocked_lines.len()), (1, 0));
    assert_eq!(plan.wake, None);
}

#[tokio::test(start_paused = true)]
async fn a_target_without_room_closes_its_queue_and_no_other() {
    let mut world = World::new();
    world.go(&line(1), "a", 16);
    world.go(&of_topic("x"), "b", 16);
    world.go(&line(2), "c", 1);
    assert_eq!(world.place(&line(1), "a"), Place::Back(None), "to its place: the queue is closed next");
    let park = world.plan().park.unwrap();
    assert!(blocks(&park, &line(1)) && blocks(&park, &of_topic("x")) && !blocks(&park, &line(2)));
    assert!(world.end("a", &answered(200), 1), "there is room again");
    assert!(!blocks(&world.plan().park.unwrap(), &line(1)));
}

#[tokio::test(start_paused = true)]
async fn what_takes_many_is_asked_for_when_many_are_taken() {
    let mut world = World::new();
    for _ in 0..50 {
        world.go(&line(1), "a", 1);
        world.end("a", &answered(200), 1);
    }
    world.go(&line(1), "a", 32);
    assert!(!world.end("a", &answered(200), 15), "not worth a call");
    assert!(blocks(&world.plan().park.unwrap(), &line(1)));
    assert!(world.end("a", &answered(200), 1));
    let plan = world.plan();
    assert!(!blocks(&plan.now[0], &line(1)) && plan.now.len() == 1, "{plan:?}");
}

#[tokio::test(start_paused = true)]
async fn there_is_an_end_to_what_is_under_way() {
    let mut world = World::new();
    for number in 0..50 {
        let room = if number < 7 { 7 } else { 1 };
        world.go(&line(number), &format!("o{number}"), room);
    }
    assert_eq!(world.board.in_flight(), 92);
    for number in 50..58 {
        world.go(&line(number), &format!("o{number}"), 1);
    }
    let plan = world.plan();
    assert!(plan.now.is_empty() && plan.park.is_none(), "no room for any");
    assert_eq!(world.place(&line(99), "late"), Place::Back(None));
    assert!(world.end("o1", &answered(200), 1));
    assert!(world.plan().park.is_some());
}

#[tokio::test(start_paused = true)]
async fn large_bodies_are_bounded_too() {
    let mut world = World::new();
    let place = world.board.place(&line(1), &topic("t"), &"a".into(), 1_000, world.now);
    assert_eq!(place, Place::Go);
    assert!(world.plan().park.is_none());
    world.board.ended("a", Some(&answered(200)), world.now);
    assert!(world.plan().park.is_none(), "not before it is settled");
    assert!(world.board.settled(1_000));
    assert!(world.plan().park.is_some());
}

#[tokio::test(start_paused = true)]
async fn when_much_is_under_way_each_target_has_a_share() {
    let mut world = World::new();
    for number in 0..7 {
        world.go(&line(number), &format!("o{number}"), 7);
    }
    world.go(&line(0), "o0", 1);
    assert_eq!(world.place(&line(1), "o1"), Place::Back(None), "half of all, by seven targets: 50 / 7 each");
    assert!((0..7).all(|number| blocks(&world.plan().park.unwrap(), &line(number))));
    world.go(&line(9), "new", 1);
}

#[tokio::test(start_paused = true)]
async fn one_target_of_many_topics_opens_as_many_as_it_has_room_for() {
    let mut world = World::new();
    let names: Vec<_> = (0..20).map(|number| format!("topic{number}")).collect();
    for name in &names {
        world.go(&of_topic(name), "gateway", 1);
        world.end("gateway", &answered(200), 1);
    }
    // 32 at once by now: two topics may give 16 each.
    let open = |call: &Call| names.iter().filter(|name| !blocks(call, &of_topic(name))).cloned().collect::<Vec<_>>();
    let first = open(&world.plan().now[0]);
    assert_eq!(first.len(), 2, "{first:?}");
    assert_ne!(open(&world.plan().now[0]), first, "each has its turn");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_down_is_asked_for_one_job_when_its_time_has_come() {
    let mut world = World::new();
    world.go(&line(1), "a", 8);
    world.end("a", &Landing::TimedOut, 8);
    let plan = world.plan();
    assert!(blocks(&plan.park.unwrap(), &line(1)));
    assert_eq!(plan.wake, Some(world.now + Duration::from_secs(1)), "to sift");
    world.wait(Duration::from_secs(5));
    let plan = world.plan();
    assert!(blocks(&plan.now[0], &line(1)), "not for many");
    assert!(!blocks(&plan.park.unwrap(), &line(1)));
    world.go(&line(1), "a", 1);
    assert!(blocks(&world.plan().park.unwrap(), &line(1)), "one is enough to see");
    world.end("a", &answered(200), 1);
    assert!(!blocks(&world.plan().now[0], &line(1)));
}

#[tokio::test(start_paused = true)]
async fn a_line_of_two_targets_stays_open_for_the_one_that_is_fine() {
    let mut world = World::new();
    world.go(&line(1), "fine", 1);
    world.end("fine", &answered(200), 1);
    world.go(&line(1), "dead", 16);
    assert!(!blocks(&world.plan().park.unwrap(), &line(1)));
    assert_eq!(world.place(&line(1), "dead"), Place::Back(Some(SOON)), "out of the way");
    world.end("dead", &Landing::TimedOut, 16);
    assert_eq!(world.place(&line(1), "dead"), Place::Back(Some(Duration::from_secs(5))), "until it is tried again");
    for _ in 0..MOST_MOVED {
        world.place(&line(1), "dead");
    }
    assert!(blocks(&world.plan().park.unwrap(), &line(1)), "not over and over");
    world.wait(SIFT_EVERY);
    world.plan();
    assert!(!blocks(&world.plan().park.unwrap(), &line(1)));
}

#[tokio::test(start_paused = true)]
async fn closed_queues_are_sifted_every_second() {
    let mut world = World::new();
    world.go(&line(1), "dead", 16);
    assert_eq!(world.plan().now.len(), 1);
    world.wait(SIFT_EVERY);
    let plan = world.plan();
    let sift = plan.now.last().unwrap();
    assert_eq!((sift.lines.per_line, blocks(sift, &line(1))), (64, false));
    assert_eq!(world.place(&line(1), "dead"), Place::Back(Some(SOON)), "moved out of the way");
    world.go(&line(1), "hidden", 1);
    world.end("hidden", &answered(200), 1);
    assert!(!blocks(&world.plan().park.unwrap(), &line(1)), "now it is known that another one is there");
}

#[tokio::test(start_paused = true)]
async fn a_topic_with_a_new_target_is_judged_by_that() {
    let mut world = World::new();
    world.go(&of_topic("x"), "old", 16);
    assert!(blocks(&world.plan().park.unwrap(), &of_topic("x")));
    world.go(&of_topic("x"), "new", 1);
    assert!(!blocks(&world.plan().park.unwrap(), &of_topic("x")));
}

#[tokio::test(start_paused = true)]
async fn when_not_all_can_be_served_those_who_were_wait_for_the_others() {
    let mut world = World::new();
    world.go(&line(1), "a", 1);
    world.end("a", &answered(200), 1);
    world.board.answered([line(1)].into_iter(), true);
    let plan = world.plan();
    assert!(blocks(&plan.now[0], &line(1)));
    assert!(!blocks(&plan.park.unwrap(), &line(1)), "who waits waits for all");
    world.board.answered([].into_iter(), false);
    assert!(!blocks(&world.plan().now[0], &line(1)), "all had their turn");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_heard_of_is_forgotten() {
    let mut world = World::new();
    for number in 0..90 {
        world.go(&line(number), &format!("o{number}"), 1);
        world.end(&format!("o{number}"), &answered(200), 1);
    }
    world.go(&line(100), "busy", 1);
    world.go(&line(101), "down", 5);
    world.end("down", &Landing::TimedOut, 5);
    world.wait(FORGET);
    world.plan();
    assert_eq!((world.board.origins.len(), world.board.queues.len()), (2, 2));
    world.wait(10 * FORGET);
    world.plan();
    assert_eq!(world.board.origins.keys().map(|origin| &**origin).collect::<Vec<_>>(), ["busy"]);
}
