package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	windowSize          = 64
	roundTripTimedEvery = 7
	floodTimedEvery     = 61
)

// Phases of a timed run.
const (
	warmingUp = iota
	measuring
	stopped
)

// A tally is what an issuer has counted.
type tally struct {
	items, queued, ran              int64
	enqueue, latency, sleeper, told []int64
	measuring                       bool
	// hogged: samples during whose wait a hog ended; how long each batch of hogs took
	afterHogs int64
	batches   []int64
}

// goOn tells an issuer whether to go on; when measuring begins it forgets what it has counted.
func (t *tally) goOn(phase *int32) bool {
	now := atomic.LoadInt32(phase)
	if now == measuring && !t.measuring {
		t.measuring = true
		t.items = 0
		t.enqueue, t.latency, t.sleeper, t.told = t.enqueue[:0], t.latency[:0], t.sleeper[:0], t.told[:0]
	}
	return now != stopped
}

func run(pool pool, options *options) (string, error) {
	spinNs := int64(0)
	if options.lap == "window" || options.lap == "block" {
		spinNs = spinTakes(options.spin)
	}
	var sum *tally
	var wall, cpu time.Duration
	switch options.lap {
	case "flood":
		sum, wall, cpu = runFlood(pool, options)
	case "idle":
		sum, wall, cpu = runIdle(pool, options)
	case "stream":
		sum, wall, cpu = runStream(pool, options)
	case "hogged":
		sum, wall, cpu = runHogged(pool, options)
	default:
		sum, wall, cpu = runTimed(pool, options)
	}
	if sum.ran != sum.queued {
		return "", fmt.Errorf("%d items were queued, %d ran", sum.queued, sum.ran)
	}
	if options.lap == "idle" {
		fmt.Println("idle")
		bufio.NewReader(os.Stdin).ReadString('\n')
	}
	line := fmt.Sprintf("{\"items\":%d,\"seconds\":%.9f,\"cpu_s\":%.9f,\"spin_ns\":%d",
		sum.items, wall.Seconds(), cpu.Seconds(), spinNs)
	line += percentiles("enqueue", sum.enqueue) + percentiles("latency", sum.latency) + percentiles("sleeper", sum.sleeper) + percentiles("told", sum.told)
	if options.lap == "flood" {
		line += fmt.Sprintf(",\"peak_kib\":%d", peakKib())
	}
	if options.lap == "hogged" {
		if len(sum.latency) == 0 {
			return "", fmt.Errorf("the hogs ended before the first sample")
		}
		// Sorted by now.
		line += fmt.Sprintf(",\"latency_max_ns\":%d,\"after_hogs\":%d", sum.latency[len(sum.latency)-1], sum.afterHogs)
		line += percentiles("batch", sum.batches)
	}
	return line + "}", nil
}

func runTimed(pool pool, options *options) (*tally, time.Duration, time.Duration) {
	phase := int32(warmingUp)
	tallies := make([]*tally, options.issuers)
	var ready, ended sync.WaitGroup
	start := make(chan struct{})
	for number := range tallies {
		tallies[number] = &tally{}
		ready.Add(1)
		ended.Add(1)
		go func(number int, tally *tally) {
			if options.mode != "unpinned" {
				pinIssuer(number)
			}
			ready.Done()
			<-start
			if options.lap == "roundtrip" {
				roundTrip(pool, tally, &phase)
			} else {
				window(pool, tally, &phase, options)
			}
			ended.Done()
		}(number, tallies[number])
	}
	ready.Wait()
	close(start)
	time.Sleep(options.warmup)
	begin, cpuBegin := time.Now(), cpuTime()
	atomic.StoreInt32(&phase, measuring)
	time.Sleep(options.time)
	atomic.StoreInt32(&phase, stopped)
	wall, cpu := time.Since(begin), cpuTime()-cpuBegin
	ended.Wait()
	return add(tallies), wall, cpu
}

func add(tallies []*tally) *tally {
	sum := &tally{}
	for _, tally := range tallies {
		sum.items += tally.items
		sum.queued += tally.queued
		sum.ran += tally.ran
		sum.enqueue = append(sum.enqueue, tally.enqueue...)
		sum.latency = append(sum.latency, tally.latency...)
		sum.sleeper = append(sum.sleeper, tally.sleeper...)
		sum.told = append(sum.told, tally.told...)
	}
	return sum
}

// trip is the item of a round trip.
type trip struct {
	ran  int64
	done chan struct{}
}

func (t *trip) run() {
	t.ran++
	t.done <- struct{}{}
}

func roundTrip(pool pool, tally *tally, phase *int32) {
	trip := &trip{done: make(chan struct{}, 1)}
	for tally.goOn(phase) {
		if tally.queued%roundTripTimedEvery == 0 {
			start := time.Now()
			pool.submit(trip)
			queued := time.Since(start)
			<-trip.done
			tally.latency = append(tally.latency, int64(time.Since(start)))
			tally.enqueue = append(tally.enqueue, int64(queued))
		} else {
			pool.submit(trip)
			<-trip.done
		}
		tally.queued++
		tally.items++
	}
	tally.ran = trip.ran
}

// slot is an item of a window.
type slot struct {
	queued time.Time
	took   int64
	runs   int64
	spin   int
	sleeps bool
	index  int
	done   chan int
	_      [64]byte
}

func (s *slot) run() {
	if s.sleeps {
		sleep := syscall.NsecToTimespec(int64(time.Millisecond))
		syscall.Nanosleep(&sleep, nil)
	}
	spin(s.spin)
	s.runs++
	s.took = int64(time.Since(s.queued))
	s.done <- s.index
}

func window(pool pool, tally *tally, phase *int32, options *options) {
	done := make(chan int, windowSize)
	slots := make([]slot, windowSize)
	queue := func(index int) {
		slot := &slots[index]
		slot.sleeps = options.lap == "block" && tally.queued%4 == 0
		tally.queued++
		slot.queued = time.Now()
		pool.submit(slot)
	}
	for index := range slots {
		slots[index].spin, slots[index].index, slots[index].done = options.spin, index, done
		queue(index)
	}
	for tally.goOn(phase) {
		index := <-done
		if slots[index].sleeps {
			tally.sleeper = append(tally.sleeper, slots[index].took)
		} else {
			tally.latency = append(tally.latency, slots[index].took)
			tally.told = append(tally.told, int64(time.Since(slots[index].queued)))
		}
		tally.items++
		queue(index)
	}
	for range slots {
		<-done
	}
	for index := range slots {
		tally.ran += slots[index].runs
	}
}

// round is what an issuer of a flood waits for.
type round struct {
	_    [64]byte
	left int64
	done chan struct{}
	_    [64]byte
}

func (r *round) run() {
	if atomic.AddInt64(&r.left, -1) == 0 {
		r.done <- struct{}{}
	}
}

// runFlood starts rounds until the time has passed; the first, shorter, warms up.
func runFlood(pool pool, options *options) (*tally, time.Duration, time.Duration) {
	share := int64(options.items / options.issuers)
	if share < 1 {
		share = 1
	}
	tallies := make([]*tally, options.issuers)
	starts := make([]chan int64, options.issuers)
	ends := make(chan struct{}, options.issuers)
	for number := range tallies {
		tallies[number], starts[number] = &tally{}, make(chan int64)
		go func(number int, tally *tally, start chan int64) {
			pinIssuer(number)
			round := &round{done: make(chan struct{}, 1)}
			for count := range start {
				atomic.StoreInt64(&round.left, count)
				for index := int64(0); index < count; index++ {
					if index%floodTimedEvery == 0 {
						start := time.Now()
						pool.submit(round)
						tally.enqueue = append(tally.enqueue, int64(time.Since(start)))
					} else {
						pool.submit(round)
					}
				}
				<-round.done
				tally.queued += count
				tally.ran += count - atomic.LoadInt64(&round.left)
				ends <- struct{}{}
			}
		}(number, tallies[number], starts[number])
	}
	oneRound := func(count int64) (time.Duration, time.Duration) {
		begin, cpuBegin := time.Now(), cpuTime()
		for _, start := range starts {
			start <- count
		}
		for range starts {
			<-ends
		}
		return time.Since(begin), cpuTime() - cpuBegin
	}
	oneRound((share + 9) / 10)
	warm := int64(0)
	for _, tally := range tallies {
		tally.enqueue = tally.enqueue[:0]
		warm += tally.queued
	}
	var wall, cpu time.Duration
	for wall < options.time {
		roundWall, roundCPU := oneRound(share)
		wall += roundWall
		cpu += roundCPU
	}
	sum := add(tallies)
	sum.items = sum.queued - warm
	return sum, wall, cpu
}

// start is the item of the idle loop.
type start struct{ at, runs int64 }

var epoch = time.Now()

func (s *start) run() {
	s.at = int64(time.Since(epoch))
	atomic.AddInt64(&s.runs, 1)
}

func runIdle(pool pool, options *options) (*tally, time.Duration, time.Duration) {
	tally := &tally{}
	begin, cpuBegin := time.Now(), cpuTime()
	ended := make(chan struct{})
	go func() {
		pinIssuer(0)
		item := &start{}
		for sample := 0; sample < options.samples; sample++ {
			systemSleep(options.period)
			queued := int64(time.Since(epoch))
			pool.submit(item)
			tally.queued++
			for atomic.LoadInt64(&item.runs) != tally.queued {
				systemSleep(options.period / 4)
			}
			tally.items++
			tally.latency = append(tally.latency, item.at-queued)
		}
		tally.ran = item.runs
		close(ended)
	}()
	<-ended
	return tally, time.Since(begin), cpuTime() - cpuBegin
}

func systemSleep(duration time.Duration) {
	sleep := syscall.NsecToTimespec(int64(duration))
	syscall.Nanosleep(&sleep, nil)
}
