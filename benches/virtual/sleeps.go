// Sleeps in two goroutines, and prints how far the clock went.
package main

import (
	"fmt"
	"sync"
	"time"
)

func main() {
	began := time.Now()
	var all sync.WaitGroup
	for i := 1; i <= 2; i++ {
		all.Add(1)
		go func(pause time.Duration) {
			defer all.Done()
			ticker := time.NewTicker(pause)
			for n := 0; n < 20; n++ {
				<-ticker.C
			}
		}(time.Duration(i) * 100 * time.Millisecond)
	}
	all.Wait()
	fmt.Println(time.Since(began))
}
