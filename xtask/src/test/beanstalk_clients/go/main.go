// Drives a server with go-beanstalk, as a program of its users would.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func main() {
	conn, err := beanstalk.Dial("tcp", os.Args[1])
	must(err)
	tube := beanstalk.NewTube(conn, "reports")
	set := beanstalk.NewTubeSet(conn, "reports", "others")

	first, err := tube.Put([]byte("first"), 9, 0, time.Minute)
	must(err)
	second, err := tube.Put([]byte("second"), 3, 0, time.Minute)
	must(err)
	later, err := tube.Put([]byte("later"), 1, time.Hour, time.Minute)
	must(err)
	id, body, err := tube.PeekReady()
	must(err)
	check(id == second && bytes.Equal(body, []byte("second")), "the lower priority is first")
	id, _, err = tube.PeekDelayed()
	must(err)
	check(id == later, "one is delayed")

	id, _, err = set.Reserve(5 * time.Second)
	must(err)
	check(id == second, "the lower priority comes first")
	must(conn.Touch(id))
	must(conn.Release(id, 20, 0))
	id, _, err = set.Reserve(0)
	must(err)
	check(id == first, "released with a higher priority")
	must(conn.Bury(id, 4))
	id, _, err = tube.PeekBuried()
	must(err)
	check(id == first, "it is buried")
	kicked, err := tube.Kick(10)
	must(err)
	check(kicked == 1, "it is kicked")
	must(conn.KickJob(later))
	body, err = conn.ReserveJob(later)
	must(err)
	check(bytes.Equal(body, []byte("later")), "it is reserved by its id")
	must(conn.Delete(later))
	stats, err := conn.StatsJob(first)
	must(err)
	check(stats["state"] == "ready" && stats["kicks"] == "1", fmt.Sprint(stats))
	for range make([]struct{}, 2) {
		id, _, err = set.Reserve(time.Second)
		must(err)
		must(conn.Delete(id))
	}
	_, _, err = set.Reserve(0)
	check(errors.Is(err, beanstalk.ErrTimeout), "there is none left")
	err = conn.Delete(first)
	check(errors.Is(err, beanstalk.ErrNotFound), "it is gone")

	must(tube.Pause(time.Minute))
	stats, err = tube.Stats()
	must(err)
	check(stats["pause"] == "60" && stats["total-jobs"] == "3", fmt.Sprint(stats))
	must(tube.Pause(0))
	tubes, err := conn.ListTubes()
	must(err)
	check(len(tubes) >= 2, fmt.Sprint(tubes))
	stats, err = conn.Stats()
	must(err)
	check(stats["draining"] == "false", fmt.Sprint(stats))
	must(conn.Close())
	fmt.Println("go-beanstalk: fine")
}
