package main

// An item that a pool runs.
type item interface{ run() }

// A pool runs what is submitted.
type pool interface{ submit(item) }

// A goroutine for each item: what most Go programs do.
type goroutines struct{}

func (goroutines) submit(item item) { go item.run() }

// Goroutines that receive from a channel.
type channelPool chan item

func newChannelPool(workers int) pool {
	items := make(channelPool, 1024)
	for worker := 0; worker < workers; worker++ {
		go func() {
			for item := range items {
				item.run()
			}
		}()
	}
	return items
}

func (items channelPool) submit(item item) { items <- item }
