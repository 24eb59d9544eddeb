package main

import (
	"sync/atomic"
	"time"
)

// batch is what the items of one batch of the hogged loop share.
type batch struct {
	// hogs that have ended in this batch; items that have run, over all batches
	ended, ran  int64
	spin, spins int
	hogs        []hog
	samples     []sample
}

// hog is an item that computes for long.
type hog struct {
	batch *batch
	ended int64
}

func (h *hog) run() {
	for count := 0; count < h.batch.spins; count++ {
		spin(h.batch.spin)
	}
	h.ended = int64(time.Since(epoch))
	atomic.AddInt64(&h.batch.ended, 1)
	atomic.AddInt64(&h.batch.ran, 1)
}

// sample is an empty item. It notes how many hogs had ended when it was queued and when it started.
type sample struct {
	batch                     *batch
	queued, started           int64
	endedBefore, endedAtStart int64
}

func (s *sample) run() {
	s.started = int64(time.Since(epoch))
	s.endedAtStart = atomic.LoadInt64(&s.batch.ended)
	atomic.AddInt64(&s.batch.ran, 1)
}

// runHogged measures how soon an empty item starts while items queued before it compute for long. In batches: first the hogs are
// queued, then a sample every period, whether or not the samples before it have started. A batch ends with its hogs and samples.
func runHogged(pool pool, options *options) (*tally, time.Duration, time.Duration) {
	tally := &tally{}
	begin, cpuBegin := time.Now(), cpuTime()
	ended := make(chan struct{})
	go func() {
		pinIssuer(0)
		batch := &batch{
			spin: options.spin, spins: options.spins,
			hogs: make([]hog, options.hogs), samples: make([]sample, options.batch),
		}
		for taken := 0; taken < options.samples; taken += options.batch {
			batch.run(pool, tally, options.period)
		}
		close(ended)
	}()
	<-ended
	return tally, time.Since(begin), cpuTime() - cpuBegin
}

func (b *batch) run(pool pool, tally *tally, period time.Duration) {
	begin := int64(time.Since(epoch))
	atomic.StoreInt64(&b.ended, 0)
	for number := range b.hogs {
		b.hogs[number].batch = b
		tally.queued++
		pool.submit(&b.hogs[number])
	}
	// The first sample follows the hogs at once.
	taken := 0
	for ; taken < len(b.samples); taken++ {
		if taken > 0 {
			systemSleep(period)
		}
		sample := &b.samples[taken]
		sample.batch, sample.endedBefore = b, atomic.LoadInt64(&b.ended)
		if sample.endedBefore >= int64(len(b.hogs)) {
			break
		}
		tally.queued++
		sample.queued = int64(time.Since(epoch))
		pool.submit(sample)
	}
	for atomic.LoadInt64(&b.ran) < tally.queued {
		systemSleep(time.Millisecond)
	}
	tally.ran = atomic.LoadInt64(&b.ran)
	tally.items += int64(taken)
	for _, sample := range b.samples[:taken] {
		tally.latency = append(tally.latency, sample.started-sample.queued)
		if sample.endedAtStart > sample.endedBefore {
			tally.afterHogs++
		}
	}
	end := begin
	for _, hog := range b.hogs {
		if hog.ended > end {
			end = hog.ended
		}
	}
	tally.batches = append(tally.batches, end-begin)
}
