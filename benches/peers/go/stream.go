package main

import (
	"sync/atomic"
	"time"
)

// requests come at a fixed rate, whatever becomes of those before them.
type requests struct {
	planned, took []int64
	spin          int
	ran           int64
}

type request struct {
	of    *requests
	index int
}

func (r *request) run() {
	spin(r.of.spin)
	r.of.took[r.index] = int64(time.Since(epoch)) - r.of.planned[r.index]
	atomic.AddInt64(&r.of.ran, 1)
}

// runStream times each request from the moment at which it was to come to its end.
func runStream(pool pool, options *options) (*tally, time.Duration, time.Duration) {
	count := int(options.time / options.period)
	all := &requests{planned: make([]int64, count), took: make([]int64, count), spin: options.spin}
	// What a quota has left after the start of the process is not the stream's affair.
	time.Sleep(options.warmup)
	begin, cpuBegin := time.Now(), cpuTime()
	start := int64(time.Since(epoch))
	for index := 0; index < count; index++ {
		planned := start + int64(options.period)*int64(index+1)
		if early := planned - int64(time.Since(epoch)); early > 0 {
			time.Sleep(time.Duration(early))
		}
		all.planned[index] = planned
		pool.submit(&request{all, index})
	}
	for atomic.LoadInt64(&all.ran) < int64(count) {
		time.Sleep(time.Millisecond)
	}
	sum := &tally{items: int64(count), queued: int64(count), ran: atomic.LoadInt64(&all.ran), latency: all.took}
	return sum, time.Since(begin), cpuTime() - cpuBegin
}
