// Command evaluators reads a job as JSON from standard input and prints what other tools make of it, with the libraries
// that they use: Katib (gjson), Argo Workflows (gjson and label selectors), Flux (kstatus, CEL), Argo CD (Lua).
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/tidwall/gjson"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// healths are the states that Argo CD knows (gitops-engine, pkg/health).
var healths = []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}

func main() {
	document, err := io.ReadAll(os.Stdin)
	check(err)
	object := map[string]any{}
	check(json.Unmarshal(document, &object))
	tool, argument := os.Args[1], ""
	if len(os.Args) > 2 {
		argument = os.Args[2]
	}
	switch tool {
	case "gjson":
		fmt.Println(gjson.GetBytes(document, argument).Raw)
	case "selector":
		selector, err := labels.Parse(argument)
		check(err)
		fmt.Println(selector.Matches(fields{document}))
	case "kstatus":
		found := &unstructured.Unstructured{}
		check(found.UnmarshalJSON(document))
		result, err := status.Compute(found)
		check(err)
		fmt.Println(result.Status)
	case "cel":
		fmt.Println(evaluate(argument, object))
	case "lua":
		fmt.Println(health(argument, object))
	default:
		check(fmt.Errorf("unknown tool %q", tool))
	}
}

// fields are the fields of a document as labels, as Argo Workflows sees them.
type fields struct{ document []byte }

func (f fields) Has(path string) bool              { return gjson.GetBytes(f.document, path).Exists() }
func (f fields) Get(path string) string            { return gjson.GetBytes(f.document, path).String() }
func (f fields) Lookup(path string) (string, bool) { return f.Get(path), f.Has(path) }

// evaluate returns the value of a CEL expression; the top-level fields of the object are variables.
func evaluate(expression string, object map[string]any) any {
	variables := []cel.EnvOption{}
	for name := range object {
		variables = append(variables, cel.Variable(name, cel.DynType))
	}
	if _, found := object["status"]; !found {
		variables, object["status"] = append(variables, cel.Variable("status", cel.DynType)), map[string]any{}
	}
	environment, err := cel.NewEnv(variables...)
	check(err)
	tree, issues := environment.Compile(expression)
	check(issues.Err())
	program, err := environment.Program(tree)
	check(err)
	value, _, err := program.Eval(object)
	check(err)
	return value.Value()
}

// health returns status and message of a Lua script that gets the object as `obj`. Other states than those that Argo CD
// knows are an error.
func health(script string, object map[string]any) string {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	openLibraries(state)
	state.SetGlobal("obj", table(state, object))
	check(state.DoString(script))
	result, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		check(fmt.Errorf("the script returned %s, not a table", state.Get(-1).Type()))
	}
	if code := result.RawGetString("status").String(); !slices.Contains(healths, code) {
		check(fmt.Errorf("%q is no health of Argo CD", code))
	}
	return fmt.Sprintf("%s: %s", result.RawGetString("status"), result.RawGetString("message"))
}

// openLibraries opens the libraries that Argo CD 3.6.1 opens for scripts of argocd-cm without useOpenLibs, and no others:
// those of packages, of tables, the basic one, and of `os` the functions time and date
// (util/lua/lua.go, runLuaWithResourceActionParameters, and util/lua/oslib_safe.go).
func openLibraries(state *lua.LState) {
	libraries := []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.OsLibName, lua.OpenOs},
	}
	for _, library := range libraries {
		call := lua.P{Fn: state.NewFunction(library.open), Protect: true}
		check(state.CallByParam(call, lua.LString(library.name)))
	}
	system, safe := state.GetGlobal(lua.OsLibName).(*lua.LTable), state.NewTable()
	for _, name := range []string{"time", "date"} {
		safe.RawSetString(name, system.RawGetString(name))
	}
	state.SetGlobal(lua.OsLibName, safe)
}

// table converts a JSON value to a Lua value.
func table(state *lua.LState, value any) lua.LValue {
	switch found := value.(type) {
	case map[string]any:
		result := state.NewTable()
		for key, item := range found {
			result.RawSetString(key, table(state, item))
		}
		return result
	case []any:
		result := state.NewTable()
		for _, item := range found {
			result.Append(table(state, item))
		}
		return result
	case string:
		return lua.LString(found)
	case float64:
		return lua.LNumber(found)
	case bool:
		return lua.LBool(found)
	}
	return lua.LNil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
